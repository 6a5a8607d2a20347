// oneTBB under the C names that treadle looks up: its parallel loop (treadle/engine.h), and an arena that has only the
// calling thread (treadle/library_gemm.h).
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <map>

namespace {

// Returns this thread's arena of that width. All of TBB's workers are one pool; an arena limits how many of them may
// join.
tbb::task_arena& arena_of(unsigned width) {
    thread_local std::map<unsigned, tbb::task_arena> arenas;
    const auto found = arenas.find(width);
    if (found != arenas.end()) return found->second;
    return arenas.try_emplace(width, static_cast<int>(width)).first->second;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void treadle_tbb_parallel(void (*body)(void*), void* data,
                                                                         unsigned width, unsigned /*flags*/) {
    arena_of(width).execute([=] {
        tbb::parallel_for(0u, width, [=](unsigned) { body(data); }, tbb::simple_partitioner());
    });
}

extern "C" __attribute__((visibility("default"))) void treadle_tbb_alone(void (*body)(void*), void* data) {
    arena_of(1).execute([=] { body(data); });
}
