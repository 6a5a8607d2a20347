// Delays around shared state in builds with -DTREADLE_CHAOS, so that rare interleavings become common.
#pragma once

#ifdef TREADLE_CHAOS
#include <sched.h>
#include <unistd.h>

#include <cstdint>

namespace treadle {

// chaos_point() sometimes yields or sleeps. Any thread may call it anywhere; it changes no result.
inline void chaos_point() {
    thread_local uint64_t state = 0x9E3779B97F4A7C15ULL ^ reinterpret_cast<uintptr_t>(&state);
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    if ((state & 63) == 0) {
        ::usleep(30);
    } else if ((state & 7) == 0) {
        ::sched_yield();
    }
}

}  // namespace treadle
#else
namespace treadle {

inline void chaos_point() {}

}  // namespace treadle
#endif
