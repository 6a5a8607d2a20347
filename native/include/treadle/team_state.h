// TeamState: what the lock of a scheduler guards, in the parts that native/README.md names.
#pragma once

#include <chrono>
#include <condition_variable>
#include <string>
#include <utility>
#include <vector>

#include "treadle/idle_workers.h"
#include "treadle/mutex.h"
#include "treadle/run_registry.h"
#include "treadle/slots.h"
#include "treadle/thread_pool.h"

namespace treadle {

// TeamState is guarded by `mutex` except for constants and where its parts say so. Section is the only way to hold it.
// Each part knows only those before it, and ThreadPool the scheduler that owns it.
struct TeamState {
    TeamState(Scheduler& owner, std::string team, int number, Limits limits, std::chrono::nanoseconds spin_limit,
              std::vector<int> cpus, std::vector<int> base_cpus)
        : name(std::move(team)),
          id(number),
          runs(limits),
          idle(slots, spin_limit),
          threads(owner, name, id, slots, idle, std::move(cpus), std::move(base_cpus)) {}

    Mutex mutex;
    const std::string name;
    const int id;
    Slots slots;
    RunRegistry runs;
    IdleWorkers idle;
    ThreadPool threads;
    bool closing = false;               // runs are refused
    std::condition_variable_any ended;  // a run or a detached worker has ended while `closing`
};

}  // namespace treadle
