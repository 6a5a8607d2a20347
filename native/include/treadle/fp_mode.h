// The floating-point mode of a thread: rounding and the treatment of denormals.
#pragma once

#include <cstdint>

#if defined(__SSE__)
#include <immintrin.h>
#endif

namespace treadle {

// FpMode is the control register without its sticky status flags. A run has its caller's mode, which its workers apply.
using FpMode = std::uint64_t;

#if defined(__SSE__)
inline constexpr std::uint32_t kStatusFlags = 0x3F;
inline FpMode get_fp_mode() { return _mm_getcsr() & ~kStatusFlags; }
inline void set_fp_mode(FpMode mode) { _mm_setcsr(static_cast<std::uint32_t>(mode)); }
#elif defined(__aarch64__)
inline FpMode get_fp_mode() {
    FpMode mode;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
inline void set_fp_mode(FpMode mode) { __asm__ __volatile__("msr fpcr, %0" ::"r"(mode)); }
#else
inline FpMode get_fp_mode() { return 0; }
inline void set_fp_mode(FpMode) {}
#endif

}  // namespace treadle
