// oneTBB under the C names that treadle looks for: its parallel loop (treadle/engine.h), and an arena of the calling thread
// alone (treadle/library_gemm.h).
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <map>

namespace {

// The arenas of this thread by width. TBB's workers are one pool for the whole process; an arena bounds how many of
// them may help here.
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
