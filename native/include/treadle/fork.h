// Survival of fork(): the child has none of its parent's workers.
#pragma once

#include <cstdint>

#include "treadle/mutex.h"

namespace treadle {

// fork_generation() is 0 in the first process of a family and one more in each child. Objects that own threads remember the generation
// they were made in; in another one their threads do not exist and their locks may be held for ever.
std::uint64_t fork_generation();

// context_mutex() guards the idle contexts of all programs, idle memory of results, and the tables of trace buffers and of
// teams' schedulers.
// fork() waits for it, so it is free in the child. Held for a few instructions at a time; no other lock is taken
// inside it.
Mutex& context_mutex();

}  // namespace treadle
