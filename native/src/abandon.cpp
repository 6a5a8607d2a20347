// Abandoned runs, whose callers have returned while other threads are in their host steps, and these detached workers.
#include <pthread.h>

#include <algorithm>
#include <utility>

#include "treadle/chaos.h"
#include "treadle/scheduler.h"

namespace treadle {

// All functions here need the lock, except shut_down(), which takes it.

// Detaches the workers inside the run: they keep their slots, and the run's permits are released. From here on only
// end_run(), on the caller's thread, reaches the run through the team.
void Scheduler::abandon(Context& run) {
    runs_.abandon(run, slots_);
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
}

// Ends a detached worker, on its own thread: releases its slot, drops its reference to the run, and releases the run if
// that was the last one. After unlock() another thread may reuse the worker. The scheduler may be destroyed at the end
// of this function, since the thread's own reference may be the last.
void Scheduler::end_detached_worker(Section& section, Worker& worker, Context& run) {
    const std::shared_ptr<Scheduler> self = std::move(worker.detached);
    const Block scratch = std::move(worker.scratch);
    std::unique_ptr<Context> last(RunRegistry::drop_reference(run) ? &run : nullptr);
    slots_.release_detached(worker);
    const auto matches = [&](const auto& detached) { return detached.get() == &worker; };
    const auto at = std::find_if(detached_.begin(), detached_.end(), matches);
    joined_.push_back(std::move(*at));
    detached_.erase(at);
    dispatch(section);
    if (closing_) run_ended_.notify_all();
    section.unlock();
    chaos_point();
    if (last) release(std::move(last));
}

bool Scheduler::shut_down(Clock::time_point until) {
    constexpr std::chrono::milliseconds look_every{1};
    Section section(*this);
    closing_ = true;
    cancel_all(section);
    while (!runs_.all().empty() || !detached_.empty()) {
        if (Clock::now() >= until && runs_.is_only_in_host_steps()) break;
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
    has_left_threads_ = !runs_.all().empty() || !detached_.empty();
    join_retired(section);
    return has_left_threads_;
}

}  // namespace treadle
