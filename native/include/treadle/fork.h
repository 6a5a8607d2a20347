// fork(): the child has none of its parent's threads.
#pragma once

#include <cstdint>

#include "treadle/mutex.h"

namespace treadle {

// fork_generation() returns 0 in the first process of a family, and one more in each child than in its parent. Objects
// that own threads remember the generation they were made in: in another one their threads do not exist, and threads
// that do not exist may hold their locks.
std::uint64_t fork_generation();

// context_mutex() returns the lock of the idle contexts of all programs, of idle result buffers, and of the tables of
// trace buffers and of teams' schedulers. fork() waits for it, so it is free in the child. Threads hold it for a few
// instructions at a time and take no other lock inside it.
Mutex& context_mutex();

}  // namespace treadle
