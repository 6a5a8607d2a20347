// Limits of a team and of runs, and limits that may change while runs are in progress.
#pragma once

#include <atomic>
#include <cstdint>

namespace treadle {

// Limits are the number of workers inside one op, and of ops in progress. In a request 0 means "not set here".
struct Limits {
    int intra_op = 0;
    int inter_op = 0;
};

// RunLimits are the limits of all runs that refer to them, those in progress included. Any thread may call its
// functions.
class RunLimits {
public:
    // set() changes both limits from the next op boundary on. It takes the lock of every scheduler in turn. Throws
    // std::invalid_argument for a number that is neither 0 nor a possible limit.
    void set(Limits limits);
    // get() returns what was set last; it takes no lock.
    Limits get() const;

private:
    std::atomic<std::uint64_t> packed_{0};  // set() stores, get() loads, both relaxed; see set()
};

// LimitSources say where the limits of a run come from. For each limit the first source that sets it counts.
struct LimitSources {
    const RunLimits* own = nullptr;     // of this run alone
    Limits requested;                   // when the run began
    const RunLimits* common = nullptr;  // of all runs of its kind, for example of one session

    // limits() returns the limits that the sources set; 0 where none does.
    Limits limits() const;
};

}  // namespace treadle
