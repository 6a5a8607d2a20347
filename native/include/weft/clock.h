// The clock of deadlines, spinning and polling.
#pragma once

#include <chrono>

namespace weft {

using Clock = std::chrono::steady_clock;

inline constexpr Clock::time_point kNever = Clock::time_point::max();

}  // namespace weft
