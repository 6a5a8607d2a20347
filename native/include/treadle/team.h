// Team: the threads that serve both kinds of parallelism, as callers see them.
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

// Team runs programs with at most `intra_op` workers inside one op and at most `inter_op` ops in progress. It starts
// threads when they first pay. Any thread may call its functions, unless it holds a lock of the core. In a child made
// by fork() the team starts threads of its own and keeps its name and limits.
class Team {
public:
    // Throws std::invalid_argument if a limit is not in 1..kMaxThreads.
    Team(std::string name, Limits limits, std::chrono::nanoseconds spin_limit = kDefaultSpin);
    ~Team();  // calls close()
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    // run() executes the program once with the addresses `bound`, and blocks until all tasks have finished. It throws
    // the first failure: what a host step threw, KernelFailure, or what ended the run from outside (see Request). The
    // calling thread takes a slot if one is free and executes tasks; otherwise it waits its turn. It may be called
    // inside a step.
    void run(Program& program, std::span<void* const> bound, const Request& request = {});
    // set_limits() changes the limits from the next op boundary on, also of runs in progress. It joins idle threads
    // beyond them.
    void set_limits(Limits limits);
    Limits limits() const;
    // set_spin() changes how long idle workers spin before they park, at once.
    void set_spin(std::chrono::nanoseconds limit);
    std::chrono::nanoseconds spin() const;
    // set_cpus() pins compute workers as Scheduler::set_cpus() does, with the calling thread's CPUs as `base`.
    void set_cpus(const std::vector<int>& cpus);
    // threads() returns how many threads the team has started that are alive.
    std::size_t threads();
    Status status();
    // close() refuses new runs, cancels those in progress if `cancel`, blocks until they have ended, and joins the
    // threads.
    void close(bool cancel = false);

    const std::string& name() const { return name_; }

private:
    friend bool shut_down_all_teams(std::chrono::nanoseconds grace);
    friend void reload_all_limits();
    static std::vector<std::shared_ptr<Scheduler>> live_schedulers();
    std::shared_ptr<Scheduler> scheduler();
    std::shared_ptr<Scheduler> live_scheduler();

    const std::string name_;
    std::atomic<std::int64_t> spin_ns_;     // set_spin() stores, any thread loads, both relaxed
    std::atomic<std::uint64_t> limits_;     // set_limits() stores, any thread loads, both relaxed: see there
    std::vector<int> cpus_;                 // guarded by context_mutex()
    std::vector<int> base_cpus_;            // guarded by context_mutex()
    std::shared_ptr<Scheduler> scheduler_;  // guarded by context_mutex()
    std::uint64_t generation_ = 0;          // of scheduler_; guarded by context_mutex()
    bool closed_ = false;                   // guarded by context_mutex()
};

// Part runs a program as a part of the run around the calling step: on its team, within its limits and priority, and
// ended with it. The thread of the step makes and uses it, and nothing else uses the addresses until run() returns, not
// even after a failure. It may run its program any number of times.
class Part {
public:
    // The program must outlive the part.
    explicit Part(Program& program);
    ~Part();
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

    // run() executes the program once with the addresses `bound`, as Team::run() does. It waits for all steps that
    // have begun, host steps in other threads included. Events have the number `iteration` or, if it is negative, that
    // of the run around it.
    void run(std::span<void* const> bound, std::int64_t iteration = -1);

private:
    Program& program_;
    std::unique_ptr<Context> context_;
};

// reload_all_limits() has all runs in progress read their RunLimits and the caps of their steps again, with effect at
// the next op boundary. It takes the lock of every scheduler in turn.
void reload_all_limits();

// shut_down_all_teams() cancels all runs and joins all threads at the end of the process. It blocks until kernels in
// progress have returned, and for `grace` until host steps have. Returns whether threads are left in host steps;
// nothing that they refer to is freed then.
bool shut_down_all_teams(std::chrono::nanoseconds grace);

}  // namespace treadle
