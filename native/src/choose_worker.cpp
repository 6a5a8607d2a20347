// Which idle worker gets work, and which are woken for it. Everything here needs the scheduler's lock.
#include <algorithm>

#include "treadle/scheduler.h"

namespace treadle {

// Returns the idle worker to which work of `run` is to be assigned, or null if that does not pay or no slot is free. If
// the run has no worker, one is found at any cost: its caller is idle then.
Worker* Scheduler::choose_worker(Section& section, Context& run, double gain_ns) {
    Help help{.must = run.workers == 0, .gain_ns = gain_ns};
    if (help.must && run.caller_waits) return worker_for_waiting(run);
    if (help.must && is_crowded(run)) {
        if (Worker* const worker = compute_worker()) return worker;
    }
    const bool has_caller = run.caller->idle && !run.caller_waits && slots_.has_slot_for(*run.caller);
    if (has_caller) help.caller = is_spinning(*run.caller) ? Idle::spinning : Idle::parked;
    if (help.goes_to_caller()) return run.caller;
    const HandOver& cost = run.program.hand_over();
    const int free_slots = slots_.capacity().free_slots();
    help.caller_borrows = run.caller->borrows_slot;
    help.has_free_slot = help.must ? free_slots > 0 : may_assign_helper(run, gain_ns, free_slots);
    Worker* const other = wants_other(help, cost) ? idle_worker() : nullptr;
    if (other != nullptr) help.other = is_spinning(*other) ? Idle::spinning : Idle::parked;
    help.remaining_ns = remaining_shareable_ns(run);
    help.may_start = !has_workers_for(slots_.capacity().max_slots() - 1);
    switch (choose_helper(help, cost)) {
        case Helper::caller: return run.caller;
        case Helper::other: return other;
        case Helper::other_if_worth_waking: return wake_record_.is_worth(gain_ns, cost) ? other : nullptr;
        case Helper::unpark: unpark_for_run(section, run, gain_ns); return nullptr;
        case Helper::start: return start_worker();
        case Helper::none: break;
    }
    return nullptr;
}

// Returns a compute worker that spins, else the one that parked last; null if none is idle.
Worker* Scheduler::idle_worker() const {
    Worker* parked = nullptr;
    for (auto it = idle_.rbegin(); it != idle_.rend(); ++it) {
        if ((*it)->role != Role::compute) continue;
        if (is_spinning(**it)) return *it;
        if (parked == nullptr) parked = *it;
    }
    return parked;
}

// Returns whether compute workers and detached workers fill `slots`: all of the team's in a crowd, else all but the one
// that the run's caller takes.
bool Scheduler::has_workers_for(int slots) const {
    return static_cast<int>(workers_.size()) + slots_.capacity().detached >= slots;
}

bool Scheduler::is_crowded(const Context& run) {
    return !run.nested && slots_.capacity().is_crowded(static_cast<int>(runs_.all().size()), slots_.reserved());
}

// Returns a compute worker for a run that has none and whose caller waits. Null if no slot is free. If no thread can be
// started, the caller executes the run after all.
Worker* Scheduler::worker_for_waiting(Context& run) {
    if (slots_.capacity().free_slots() <= 0) return nullptr;
    Worker* const worker = compute_worker();
    if (worker != nullptr || !run.caller->idle) return worker;
    run.caller_waits = false;
    return run.caller;
}

// Returns a compute worker for a run that its caller should not execute: in a crowd, where compute workers hold the
// slots and go from run to run. Otherwise a caller whose run has ended would have to wake the next caller. The operating
// system tends to let the woken thread run first, on the CPU that the waking one needs to return, so its result would
// arrive a run late. Null if there is no thread for it; then the run's caller executes the run after all.
Worker* Scheduler::compute_worker() {
    if (Worker* const idle = idle_worker()) return idle;
    if (has_workers_for(slots_.capacity().max_slots())) return nullptr;
    Worker* const worker = start_worker();
    if (worker != nullptr) worker_limit_ = std::max(worker_limit_, static_cast<std::size_t>(slots_.capacity().max_slots()));
    return worker;
}

// Unparks up to `most` parked compute workers, which then spin. Returns how many.
int Scheduler::unpark_workers(Section& section, int most) {
    int count = 0;
    for (auto it = idle_.rbegin(); it != idle_.rend() && count < most; ++it) {
        if ((*it)->role != Role::compute) continue;
        // Relaxed: written under the lock we hold.
        if ((*it)->state.load(std::memory_order_relaxed) != State::parked) continue;
        slots_.add_spinning(1);
        ++count;
        prepare_to_wake(**it);
        set_state(section, **it, State::spinning);
    }
    return count;
}

int Scheduler::missing_workers(const Context& run) {
    return slots_.capacity().missing_workers(runs_.limits_of(run), slots_.reserved());
}

// Unparks workers ahead of the next ops of a run with much shareable work, since each op alone may be too short to pay
// for a wake-up. Help would save `saved_ns` now.
void Scheduler::unpark_for_run(Section& section, const Context& run, double saved_ns) {
    const HandOver& cost = run.program.hand_over();
    if (remaining_shareable_ns(run) < 2 * cost.worth_waking_ns()) return;
    const int most = missing_workers(run);
    if (most > 0 && wake_record_.is_worth(saved_ns, cost)) unpark_workers(section, most);
}

// Unparks or starts a worker for short runs that follow each other at once. Each alone is too short to pay for that,
// but not for a worker that spins from one run to the next. The worker is made available once the time that help would
// have saved in them adds up to its cost.
void Scheduler::unpark_for_short_runs(Section& section, const Context& run) {
    const double saved = remaining_shareable_ns(run) / 2;
    const HandOver& cost = run.program.hand_over();
    if (!(saved >= cost.worth_awaiting_ns()) || missing_workers(run) <= 0) return;
    forgone_ns_ += saved;
    if (forgone_ns_ < std::max(cost.worth_starting_ns(), wake_record_.least_ns(cost))) return;
    forgone_ns_ = 0;
    if (unpark_workers(section, 1) > 0 || has_workers_for(slots_.capacity().max_slots() - 1)) return;
    if (Worker* const started = start_worker()) become_idle(section, *started);
}

}  // namespace treadle
