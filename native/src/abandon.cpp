// Runs that their callers have left while host steps of them go on in other threads, and those threads.
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "treadle/chaos.h"
#include "treadle/scheduler.h"

namespace treadle {

// All of these need the lock, but for part().

// Whether the run has been ended from outside and nothing of it goes on but host steps in other threads than its
// caller's. No more of them begin then, and none is followed by another step: so this becomes true only when the run is
// ended or somebody leaves it, and stays so.
bool Scheduler::can_be_abandoned(const Context& run) const {
    return run.may_be_abandoned && run.ended_externally && !run.serial && run.caller->host_run != &run &&
           run.in_host_steps == run.workers + run.blocking_ops;
}

// Takes the threads inside the run out of the team, with the places they hold but without its tokens. From here on the
// run is out of reach for the team but for its caller's end().
void Scheduler::abandon(Context& run) {
    const bool lent_in_use = run.caller->borrows_slot && !run.lent_permit_free;
    permits_used_ -= run.ops - (lent_in_use ? 1 : 0);
    blocking_ops_ -= run.blocking_ops;
    run.abandoned = true;
    run.limit_sources = {nullptr, run.limits, nullptr};  // the others are its caller's; what is part of it may still ask
    run.references = run.in_host_steps + 1;
    for (auto* const threads : {&workers_, &blocking_}) {
        for (auto& worker : *threads) {
            if (worker->host_run != &run) continue;
            worker->detached = shared_from_this();
            pthread_detach(worker->thread);
            if (worker->slot >= 0) ++detached_slots_;
            if (std::exchange(worker->is_resting, false)) resting_.fetch_sub(1, std::memory_order_relaxed);  // see resting_
            detached_.push_back(std::move(worker));
        }
        std::erase(*threads, nullptr);
    }
    update_limits();
}

// For who goes from an abandoned run: whether nobody is left, so that the run is now its own to release.
bool Scheduler::drop_reference(Context& run) {
    const Section section(*this);
    return --run.references == 0;
}

// The end of a stray thread: its place comes back, and what its run kept goes if it is the last. The worker is free for
// another thread once the lock is, and the scheduler may go with the last reference, which is the thread's own.
void Scheduler::end_detached_worker(Section& section, Worker& worker, Context& run) {
    const std::shared_ptr<Scheduler> self = std::move(worker.detached);
    const Block scratch = std::move(worker.scratch);
    std::unique_ptr<Context> last(--run.references == 0 ? &run : nullptr);
    if (worker.slot >= 0) --detached_slots_;
    release_slot(worker);
    worker.slot = -1;
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

// Whether all that goes on in runs are host steps, in whichever thread.
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
        run_ended_.wait_for(section.raw(), look_every);
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
