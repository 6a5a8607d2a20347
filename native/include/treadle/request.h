// Request: what the caller of one run asks for.
#pragma once

#include <functional>
#include <memory>

#include "treadle/cancel.h"
#include "treadle/clock.h"
#include "treadle/run_limits.h"

namespace treadle {

struct Request {
    Request() = default;
    explicit Request(Limits run_limits) : limits(run_limits) {}

    Limits limits;                        // 0 stands for the team's limit
    int priority = 0;                     // higher first, equal ones by turns; a nested run has at least its outer one's
    Clock::time_point deadline = kNever;  // ends the run with RunTimeout
    std::shared_ptr<CancelToken> token;   // ends the run with RunCancelled
    std::shared_ptr<const RunLimits> own_limits;     // take precedence over `limits`
    std::shared_ptr<const RunLimits> common_limits;  // apply where neither of the above sets a limit
    bool is_part = false;        // of the run around the calling step: same team, and same limits where none are set;
                                 // the step must hold no lock, since its run may then wait for a slot
    bool caller_waits = false;   // the caller executes nothing, so that it returns in time while a host step goes on;
                                 // not in a nested run, and not if no thread can be started
    void (*poll)() = nullptr;    // called on the calling thread about every kPollInterval; what it throws ends the run
    // If set, the run may be abandoned when it is ended from outside: run() then throws while other threads are still
    // in host steps. run() calls `keep_alive` on the calling thread, without a lock; it returns the owner of everything
    // that these steps use (the program, the bound memory), and must not throw. The thread that leaves the last of
    // these steps drops that owner.
    std::function<std::shared_ptr<void>()> keep_alive;
};

}  // namespace treadle
