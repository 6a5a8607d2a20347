// Engine: another runtime's parallel loop in place of the team's own.
#pragma once

namespace treadle {

// Engine calls body(data) on up to `width` threads at once, the calling thread among them, and returns when all have
// returned. `flags` is 0. OpenMP runtimes export a function of this form as GOMP_parallel.
using Engine = void (*)(void (*body)(void*), void* data, unsigned width, unsigned flags);

// set_engine() chooses what spreads the chunks of one op from now on; null is the team itself. Throws
// std::logic_error if a run has begun with another engine: two in one process would compete for the same CPUs.
void set_engine(Engine engine);
// engine_in_use() is the chosen one, and fixes the choice: for runs.
Engine engine_in_use();
// engine_is_fixed() says whether a run has begun, in this process: after fork() the child may choose anew.
bool engine_is_fixed();

}  // namespace treadle
