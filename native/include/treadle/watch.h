// Watch: what may end a run from outside while its caller works or waits.
#pragma once

#include <chrono>

#include "treadle/clock.h"

namespace treadle {

struct Ending;

// Callers poll about this often, whether they work or wait.
inline constexpr std::chrono::milliseconds kPollInterval{40};

// Watch belongs to the worker that calls the run; all functions are for the thread of that worker alone and take no
// lock.
class Watch {
public:
    // start() replaces what may end the run: `poll` throws to end it (Ctrl-C, for example) and is called about every
    // kPollInterval; `outer` belongs to the run around this one. Null, null and kNever turn the
    // watch off.
    void start(void (*poll)(), Clock::time_point deadline, const Ending* outer);
    // is_on() is true from start() until check() throws, unless nothing may end the run.
    bool is_on() const { return is_on_; }
    // poll_function() returns the function that is polled; null if there is none or the watch is off.
    void (*poll_function() const)() { return is_on_ ? poll_ : nullptr; }
    // ended_run() is true once check() has thrown.
    bool ended_run() const { return has_ended_run_; }
    // check() throws RunTimeout, RunCancelled or what the poll throws if the run has to end, and then turns the watch
    // off.
    void check(Clock::time_point now);
    // maybe_check() calls check() now and then; `done_ns` estimates the work since the last call. It is cheap enough to
    // be called after each task and each chunk.
    void maybe_check(double done_ns) {
        if (is_on_) count_work(done_ns);
    }
    // time_to_check() returns how long a waiting worker may sleep before it has to call check(); negative: for ever.
    std::chrono::nanoseconds time_to_check(Clock::time_point now) const;

private:
    // count_work() calls check() once enough work has been done since the clock was last read.
    void count_work(double done_ns);

    bool is_on_ = false;  // if false, nothing below has a meaning
    void (*poll_)() = nullptr;
    Clock::time_point deadline_ = kNever;
    const Ending* outer_ = nullptr;
    bool has_ended_run_ = false;
    int countdown_ = 1;     // tasks and chunks until the clock is read again
    int stride_ = 1;        // what countdown_ starts from
    double budget_ns_ = 0;  // estimated work until the clock is read again
    Clock::time_point read_at_{};
    Clock::time_point polled_at_{};
};

}  // namespace treadle
