// Abandoned runs, whose callers have returned while other threads are in their host steps, and these detached workers.
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "treadle/chaos.h"
#include "treadle/scheduler.h"

namespace treadle {

// All functions here need the lock, except drop_reference() and shut_down(), which take it.

// Returns whether the run has been ended from outside and only host steps in threads other than its caller's are left
// of it. No host step begins after that, and none is followed by another step. So this becomes true only when the run
// is ended or a worker leaves one of its ops, and then stays true.
bool Scheduler::can_be_abandoned(const Context& run) const {
    return run.may_be_abandoned && run.ended_externally && !run.serial && run.caller->host_run != &run &&
           run.in_host_steps == run.workers + run.blocking_ops;
}

// Detaches the workers inside the run: they keep their slots, and the run's permits are released. From here on only
// end_run(), on the caller's thread, reaches the run through the team.
void Scheduler::abandon(Context& run) {
    slots_.release_permits(run);
    // The permits of these ops include those that parts have returned already.
    for (Context* part : runs_) {
        if (&outermost(*part) == &run) slots_.restore_permit(*part);
    }
    blocking_ops_ -= run.blocking_ops;
    run.abandoned = true;
    // The other sources belong to the caller, and parts of the run may still read its limits.
    run.limit_sources = {nullptr, run.limits, nullptr};
    run.references = run.in_host_steps + 1;
    for (auto* const threads : {&workers_, &blocking_}) {
        for (auto& worker : *threads) {
            if (worker->host_run != &run) continue;
            worker->detached = shared_from_this();
            pthread_detach(worker->thread);
            slots_.detach(*worker);
            detached_.push_back(std::move(worker));
        }
        std::erase(*threads, nullptr);
    }
    update_limits();
}

// Drops the caller's reference to an abandoned run; true if it was the last, so that the caller must release the run.
bool Scheduler::drop_reference(Context& run) {
    const Section section(*this);
    return --run.references == 0;
}

// Ends a detached worker, on its own thread: releases its slot, drops its reference to the run, and releases the run if
// that was the last one. After unlock() another thread may reuse the worker. The scheduler may be destroyed at the end
// of this function, since the thread's own reference may be the last.
void Scheduler::end_detached_worker(Section& section, Worker& worker, Context& run) {
    const std::shared_ptr<Scheduler> self = std::move(worker.detached);
    const Block scratch = std::move(worker.scratch);
    std::unique_ptr<Context> last(--run.references == 0 ? &run : nullptr);
    slots_.release_detached(worker);
    const auto matches = [&](const auto& detached) { return detached.get() == &worker; };
    const auto at = std::find_if(detached_.begin(), detached_.end(), matches);
    joined_.push_back(std::move(*at));
    detached_.erase(at);
    update_limits();
    dispatch(section);
    if (closing_) run_ended_.notify_all();
    section.unlock();
    chaos_point();
    if (last) release(std::move(last));
}

// Returns whether nothing but host steps is in progress in all runs.
bool Scheduler::is_only_in_host_steps() const {
    return std::all_of(runs_.begin(), runs_.end(), [](const Context* run) {
        return run->in_host_steps >= (run->serial ? 1 : run->workers + run->blocking_ops);
    });
}

bool Scheduler::shut_down(Clock::time_point until) {
    constexpr std::chrono::milliseconds look_every{1};
    Section section(*this);
    closing_ = true;
    cancel_all(section);
    while (!runs_.empty() || !detached_.empty()) {
        if (Clock::now() >= until && is_only_in_host_steps()) break;
        section.wait_for(run_ended_, look_every);
    }
    for (auto* const threads : {&workers_, &blocking_}) {
        for (auto& worker : *threads) {
            if (!worker->idle) continue;
            dismiss(section, *worker);
            retired_.push_back(std::move(worker));
        }
        std::erase(*threads, nullptr);
    }
    has_left_threads_ = !runs_.empty() || !detached_.empty();
    join_retired(section);
    return has_left_threads_;
}

}  // namespace treadle
