// What handing work to another thread costs, and so what is worth handing over. All times in nanoseconds.
#pragma once

#include <cstdint>

namespace treadle {

// A task cheaper than this is not worth the locks and cache misses of running it elsewhere.
inline constexpr double kWorthSharingNs = 800;
// What each step of a task costs more elsewhere: its pointers, parameters and data come from another core's cache.
inline constexpr double kStepElsewhereNs = 100;
// Gain below which no spinning thread is called, no parked thread is woken, and no thread is started.
inline constexpr double kWorthCallingSpinnerNs = 1'000;
inline constexpr double kWorthWakingNs = 40'000;
inline constexpr double kWorthStartingNs = 80'000;
// The part of a run that others must be able to take for sharing to pay: locks, wake-ups and data that another core has
// cost a run that is shared some hundredths.
inline constexpr double kWorthSharingPart = 1.0 / 16;
// Gain in each of many runs, one right after the other, below which no thread spins between them.
inline constexpr double kWorthAwaitingNs = 10'000;

// A run that has been served this long lets another of its priority go first that gets nothing and has less left to do;
// one that has more, when it has also been served so many times as long as it should have taken alone.
inline constexpr std::int64_t kTurnNs = 5'000'000;
inline constexpr double kOverdue = 2;
inline constexpr std::int64_t kEndlessNs = INT64_MAX;

// Who calls runs one right after the other has a place kept for it between them, from those who would only help somebody
// else and save less than the last number by it: for this part of what its run should take, but neither less nor more
// than the next two say.
inline constexpr double kReturnPart = 1.0 / 8;
inline constexpr double kReturnNs = 500'000;
inline constexpr double kLongestReturnNs = 5'000'000;
inline constexpr double kWorthKeptPlaceNs = 5'000'000;

}  // namespace treadle
