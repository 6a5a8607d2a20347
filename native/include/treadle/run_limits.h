// Limits of a team and of runs, and those that may change while runs are in progress.
#pragma once

#include <atomic>
#include <cstdint>

namespace treadle {

// Limits on a team: workers inside one op, and ops in progress. In a request 0 stands for "not said here".
struct Limits {
    int intra_op = 0;
    int inter_op = 0;
};

// RunLimits are the limits of all runs that refer to them, those in progress included. All functions may be called from
// any thread.
class RunLimits {
public:
    // set() takes effect at the next op boundary. Throws std::invalid_argument for what is neither 0 nor possible.
    void set(Limits limits);
    Limits get() const;

private:
    std::atomic<std::uint64_t> packed_{0};
};

// LimitSources say where the limits of a run come from: for each limit the first that says one.
struct LimitSources {
    const RunLimits* own = nullptr;     // of this run alone
    Limits asked;                       // when it began
    const RunLimits* common = nullptr;  // of all runs of its kind

    Limits limits() const;
};

}  // namespace treadle
