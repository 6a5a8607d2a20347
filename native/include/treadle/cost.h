// Estimated costs of handing work to another thread, in nanoseconds, and the times that the scheduler's rules use. They
// influence who executes what, never results.
#pragma once

#include <cstdint>

namespace treadle {

// HandOver is what the machine takes for handing work from thread to thread: figures of its machine model
// (src/treadle/plan/machine.py), whose names it shares; benches/calibrate measures them. Without a model they are those of
// the generic one. The functions return what follows for the scheduler's rules. Their factors were fitted to models on
// guests of two CPUs: docs/measurements/load-imbalance.md, wake-ups.md.
struct HandOver {
    double wake_ns = 1'000;     // until a worker that spins begins
    double unpark_ns = 20'000;  // until a worker that sleeps begins
    double line_ns = 100;       // reading a cache line that another core has written

    // A cheaper task does not pay for the locks and cache misses of running it on another thread.
    double worth_sharing_ns() const { return 0.8 * wake_ns; }
    // Each step of a task costs this much more on another thread: its pointers, arguments and data come from another
    // cache.
    double step_elsewhere_ns() const { return line_ns; }
    // A smaller saving does not pay for calling a spinning thread, waking a parked one, or starting one.
    double worth_calling_spinner_ns() const { return wake_ns; }
    double worth_waking_ns() const { return 2 * unpark_ns; }
    double worth_starting_ns() const { return 4 * unpark_ns; }
    // A smaller saving in each of many runs, each right after the last, does not pay for a thread that spins between
    // them.
    double worth_awaiting_ns() const { return 10 * wake_ns; }
    // fitted_ns() returns an estimate in the time unit of those that the times below were fitted with, in which a wake-up
    // takes 1 us and estimates are two to three times as long as kernels: docs/measurements/cost-model.md.
    double fitted_ns(double estimate_ns) const { return estimate_ns * (1'000 / wake_ns); }
};

// Where woken threads come too late, because other processes have the CPUs, help must save up to so many times
// worth_waking_ns() before the next one is woken.
inline constexpr double kMostReluctance = 8;
// Other workers must be able to take this fraction of a run for the parallel path to pay. Locks, wake-ups and data in
// another core's cache cost a run on the parallel path some hundredths of its time.
inline constexpr double kWorthSharingPart = 1.0 / 16;

// A run that has been served this long gives a turn to a run of its priority that has no worker and less remaining
// work.
inline constexpr std::int64_t kTurnNs = 5'000'000;
// A run that has been served this many times as long as it should have taken alone, in fitted_ns(), gives turns to all
// runs of its priority.
inline constexpr double kOverdue = 2;
inline constexpr std::int64_t kEndlessNs = INT64_MAX;

// A slot is reserved for a caller between two runs for this fraction of its run's time in fitted_ns(), within the
// two bounds: docs/measurements/slots-between-runs.md.
inline constexpr double kReservationPart = 1.0 / 8;
inline constexpr double kMinReservationNs = 500'000;
inline constexpr double kMaxReservationNs = 5'000'000;
// Helping another run is worth a reserved slot if it saves this much in fitted_ns().
inline constexpr double kWorthReservedSlotNs = 5'000'000;

}  // namespace treadle
