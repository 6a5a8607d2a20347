// Team: the threads that serve both kinds of parallelism, as the rest of the world sees them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "weft/context.h"
#include "weft/program.h"

namespace weft {

class Scheduler;

inline constexpr int kMostThreads = 4096;
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
    // threw, KernelFailure, or what `poll` threw. The calling thread takes a place if one is free and works; else it
    // waits its turn. `asked` limits this run alone; 0 stands for the team's limit. Runs of higher `priority` are
    // served first, equal ones by turns. May be called inside a step.
    void run(Program& program, std::span<void* const> bound, Limits asked = {}, void (*poll)() = nullptr,
             int priority = 0);
    // set_limits() takes effect at the next op boundary, also of runs in progress.
    void set_limits(Limits limits);
    Limits limits() const;
    // threads() counts threads started and alive.
    std::size_t threads();
    // close() waits for runs in progress, or cancels them, and ends the threads. run() throws from then on.
    void close(bool cancel = false);

    const std::string& name() const { return name_; }

private:
    friend void close_all_teams();
    std::shared_ptr<Scheduler> scheduler();

    const std::string name_;
    const std::chrono::nanoseconds spin_limit_;
    std::atomic<std::uint64_t> limits_;
    std::shared_ptr<Scheduler> scheduler_;  // guarded by context_mutex()
    std::uint64_t generation_ = 0;          // of scheduler_; guarded by context_mutex()
    bool closed_ = false;                   // guarded by context_mutex()
};

// close_all_teams() closes every team there is, cancelling their runs: for the end of the process.
void close_all_teams();

}  // namespace weft
