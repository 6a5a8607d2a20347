// The clock of deadlines, spinning and polling.
#pragma once

#include <chrono>

namespace treadle {

using Clock = std::chrono::steady_clock;

inline constexpr Clock::time_point kNever = Clock::time_point::max();

}  // namespace treadle
