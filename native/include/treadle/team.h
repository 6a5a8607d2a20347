// Team: the threads that serve both kinds of parallelism, as the rest of the world sees them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "treadle/context.h"
#include "treadle/program.h"
#include "treadle/scheduler.h"

namespace treadle {

inline constexpr int kMaxThreads = 4096;
inline constexpr std::chrono::microseconds kDefaultSpin{50};

// Team runs programs with at most `intra_op` workers inside one op and `inter_op` ops in progress. It starts threads
// when they first pay. All functions may be called from any thread. In a child made by fork() it begins anew, with the
// same name and limits.
class Team {
public:
    // Throws std::invalid_argument if a limit is not in 1..kMostThreads.
    Team(std::string name, Limits limits, std::chrono::nanoseconds spin_limit = kDefaultSpin);
    ~Team();  // close()
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // run() executes the program once and returns when all is done, or throws the first failure: what a host step
    // threw, KernelFailure, or what ended it from outside (see Request). The calling thread takes a place if one is
    // free and works; else it waits its turn. May be called inside a step.
    void run(Program& program, std::span<void* const> bound, const Request& request = {});
    // set_limits() takes effect at the next op boundary, also of runs in progress; so does RunLimits::set().
    void set_limits(Limits limits);
    Limits limits() const;
    // set_spin() takes effect at once; set_cpus() as Scheduler::set_cpus(), with the calling thread's CPUs as base.
    void set_spin(std::chrono::nanoseconds limit);
    std::chrono::nanoseconds spin() const;
    void set_cpus(const std::vector<int>& cpus);
    // threads() counts threads started and alive.
    std::size_t threads();
    Status status();
    // close() waits for runs in progress, or cancels them, and ends the threads. run() throws from then on.
    void close(bool cancel = false);

    const std::string& name() const { return name_; }

private:
    friend bool end_all_teams(std::chrono::nanoseconds grace);
    friend void revise_all_runs();
    static std::vector<std::shared_ptr<Scheduler>> living_schedulers();
    std::shared_ptr<Scheduler> scheduler();
    std::shared_ptr<Scheduler> living_scheduler();

    const std::string name_;
    std::atomic<std::int64_t> spin_ns_;
    std::atomic<std::uint64_t> limits_;
    std::vector<int> cpus_;                 // guarded by context_mutex()
    std::vector<int> base_cpus_;            // guarded by context_mutex()
    std::shared_ptr<Scheduler> scheduler_;  // guarded by context_mutex()
    std::uint64_t generation_ = 0;          // of scheduler_; guarded by context_mutex()
    bool closed_ = false;                   // guarded by context_mutex()
};

// revise_all_runs() has runs in progress look at their RunLimits and at the caps of their steps again, with effect at the
// next op boundary.
void revise_all_runs();

// end_all_teams() cancels all runs and ends all threads, for the end of the process. Waits for kernels in flight, and
// `grace` for host steps; returns whether threads are left in some. These may be in the core for ever: nothing that they
// refer to is freed.
bool end_all_teams(std::chrono::nanoseconds grace);

}  // namespace treadle
