// WorkerChooser: which idle worker gets work, and which are woken ahead of it.
#pragma once

#include "treadle/team_state.h"

namespace treadle {

class Section;

// WorkerChooser fills the records of policy.h and does what its functions answer. All functions need the scheduler's
// lock.
class WorkerChooser {
public:
    explicit WorkerChooser(TeamState& team) : team_(team) {}

    // choose() returns the idle worker to which work of `run` is to be assigned that saves `gain_ns`, or null if that
    // does not pay or no slot is free. If the run has no worker, one is found at any cost: its caller is idle then.
    Worker* choose(Section& section, Context& run, double gain_ns);
    // may_help() returns whether a worker that would help a run which has a worker may use one of `free_slots`.
    bool may_help(const Context& run, double gain_ns, int free_slots);

    // unpark_for_run() unparks workers ahead of the next ops of a run with much shareable work, since each op alone may
    // be too short to pay for a wake-up. Help would save `saved_ns` now.
    void unpark_for_run(Section& section, const Context& run, double saved_ns);
    // unpark_for_short_runs() unparks or starts a worker for short runs that follow each other at once. Each alone is
    // too short to pay for that, but not for a worker that spins from one run to the next. The worker is made available
    // once the time that help would have saved in them adds up to its cost.
    void unpark_for_short_runs(Section& section, const Context& run);

private:
    double remaining_shareable_ns(const Context& run) const;
    bool is_crowded(const Context& run);
    int missing_workers(const Context& run);
    Worker* compute_worker();
    Worker* worker_for_waiting(Context& run);

    TeamState& team_;
    double forgone_ns_ = 0;  // what help would have saved in runs too short for it, since such runs last got a worker
};

}  // namespace treadle
