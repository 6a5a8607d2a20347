// Engine: another runtime's parallel loop in place of the team's workers.
#pragma once

namespace treadle {

// Engine calls body(data) on up to `width` threads at once, one of which is the calling thread, and returns when all
// calls have returned. `flags` is 0. OpenMP runtimes export a function of this type as GOMP_parallel.
using Engine = void (*)(void (*body)(void*), void* data, unsigned width, unsigned flags);

// set_engine() chooses what executes the chunks of an op; null is the team itself. Any thread may call it. Throws
// std::logic_error if a run has begun with another engine: two engines in one process would compete for the same CPUs.
void set_engine(Engine engine);
// engine_in_use() returns the chosen engine and makes the choice final. Runs call it.
Engine engine_in_use();
// engine_is_fixed() returns whether a run has begun in this process. A child made by fork() may choose again.
bool engine_is_fixed();

}  // namespace treadle
