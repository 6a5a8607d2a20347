// Estimated costs of handing work to another thread, in nanoseconds, and the times that the scheduler's rules use.
#pragma once

#include <cstdint>

namespace treadle {

// A cheaper task does not pay for the locks and cache misses of running it on another thread.
inline constexpr double kWorthSharingNs = 800;
// Each step of a task costs this much more on another thread: its pointers, arguments and data come from another cache.
inline constexpr double kStepElsewhereNs = 100;
// A smaller saving does not pay for calling a spinning thread, waking a parked one, or starting one.
inline constexpr double kWorthCallingSpinnerNs = 1'000;
inline constexpr double kWorthWakingNs = 40'000;
inline constexpr double kWorthStartingNs = 80'000;
// Where woken threads come too late, because other processes have the CPUs, help must save up to this before the next
// one is woken.
inline constexpr double kMostWorthWakingNs = 8 * kWorthWakingNs;
// Other workers must be able to take this fraction of a run for the parallel path to pay. Locks, wake-ups and data in
// another core's cache cost a run on the parallel path some hundredths of its time.
inline constexpr double kWorthSharingPart = 1.0 / 16;
// A smaller saving in each of many runs, each right after the last, does not pay for a thread that spins between them.
inline constexpr double kWorthAwaitingNs = 10'000;

// A run that has been served this long gives a turn to a run of its priority that has no worker and less remaining
// work.
inline constexpr std::int64_t kTurnNs = 5'000'000;
// A run that has been served this many times as long as it should have taken alone gives turns to all runs of its
// priority.
inline constexpr double kOverdue = 2;
inline constexpr std::int64_t kEndlessNs = INT64_MAX;

// A slot is reserved for a caller between two runs for this fraction of its run's estimated time, within the two
// bounds.
inline constexpr double kReservationPart = 1.0 / 8;
inline constexpr double kMinReservationNs = 500'000;
inline constexpr double kMaxReservationNs = 5'000'000;
// Helping another run is worth a reserved slot if it saves this much.
inline constexpr double kWorthReservedSlotNs = 5'000'000;

}  // namespace treadle
