// Which idle worker gets work, and which are woken for it. Everything here needs the scheduler's lock.
#include <algorithm>

#include "treadle/cost.h"
#include "treadle/scheduler.h"

namespace treadle {

// Returns the idle worker to which work of `run` is to be assigned, or null if that does not pay or no slot is free. If
// the run has no worker, one is found at any cost: its caller is idle then.
Worker* Scheduler::choose_worker(Section& section, Context& run, double gain_ns) {
    const bool must = run.workers == 0;
    if (must && run.caller_waits) return worker_for_waiting(run);
    if (must && is_crowded(run)) {
        if (Worker* const worker = compute_worker()) return worker;
    }
    const bool may_call = run.caller->idle && !run.caller_waits && has_slot_for(*run.caller);
    Worker* const caller = may_call ? run.caller : nullptr;
    if (caller != nullptr && (must || is_spinning(*caller))) return caller;
    const int free_slots = max_slots() - slots_.used();
    const bool has_free_slot = must ? free_slots > 0 : may_assign_helper(run, gain_ns, free_slots);
    Worker* parked = caller != nullptr && (has_free_slot || caller->borrows_slot) ? caller : nullptr;
    if (has_free_slot && (must || gain_ns >= kWorthCallingSpinnerNs)) {
        Worker* const worker = idle_worker();
        if (worker != nullptr && is_spinning(*worker)) return worker;
        if (parked == nullptr) parked = worker;
    }
    if (parked != nullptr) {
        if (must) return parked;
        if (gain_ns >= kWorthWakingNs) return parked == caller || is_worth_waking(gain_ns) ? parked : nullptr;
        if (gain_ns >= kWorthCallingSpinnerNs) unpark_for_run(section, run, gain_ns);
        return nullptr;
    }
    if (!has_free_slot || gain_ns < kWorthCallingSpinnerNs) return nullptr;
    // Ops that are each too short to pay for a thread may pay for one together.
    if (gain_ns < kWorthStartingNs && !(remaining_shareable_ns(run) >= 2 * kWorthStartingNs)) return nullptr;
    if (has_workers_for(max_slots() - 1)) return nullptr;
    return start_worker();
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
    return static_cast<int>(workers_.size()) + detached_slots_ >= slots;
}

// Returns whether there are more callers than slots, counting those for which a slot is reserved. A team of one slot
// has no compute workers, and so no crowd.
bool Scheduler::is_crowded(const Context& run) {
    return slot_limit_ > 1 && !run.nested && slots_.used() < max_slots() &&
           static_cast<int>(runs_.size()) + reserved_slots() > slot_limit_;
}

// Returns a compute worker for a run that has none and whose caller waits. Null if no slot is free. If no thread can be
// started, the caller executes the run after all.
Worker* Scheduler::worker_for_waiting(Context& run) {
    if (slots_.used() >= max_slots()) return nullptr;
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
    if (has_workers_for(max_slots())) return nullptr;
    Worker* const worker = start_worker();
    if (worker != nullptr) worker_limit_ = std::max(worker_limit_, static_cast<std::size_t>(max_slots()));
    return worker;
}

// Unparks up to `most` parked compute workers, which then spin. Returns how many.
int Scheduler::unpark_workers(Section& section, int most) {
    int count = 0;
    for (auto it = idle_.rbegin(); it != idle_.rend() && count < most; ++it) {
        if ((*it)->role != Role::compute) continue;
        // Relaxed: written under the lock we hold.
        if ((*it)->state.load(std::memory_order_relaxed) != State::parked) continue;
        ++spinners_;
        ++count;
        prepare_to_wake(**it);
        set_state(section, **it, State::spinning);
    }
    return count;
}

// Returns how many more workers the run could use on slots that are neither in use nor reserved, without spinning ones.
int Scheduler::missing_workers(const Context& run) {
    const Limits limits = limits_of(run);
    return std::min(std::max(limits.intra_op, limits.inter_op), max_slots()) - slots_.used() - reserved_slots() - spinners_;
}

// Returns whether a worker is to be woken for help that pays for that if it comes in time, and saves this much now. If
// the last ones came too late, help must save more: what it would have saved since then counts, too.
bool Scheduler::is_worth_waking(double saved_ns) {
    unhelped_ns_ += saved_ns;
    if (worth_waking_ns_ > kWorthWakingNs && unhelped_ns_ < worth_waking_ns_) return false;
    unhelped_ns_ = 0;
    return true;
}

// Unparks workers ahead of the next ops of a run with much shareable work, since each op alone may be too short to pay
// for a wake-up. Help would save `saved_ns` now.
void Scheduler::unpark_for_run(Section& section, const Context& run, double saved_ns) {
    if (remaining_shareable_ns(run) < 2 * kWorthWakingNs) return;
    const int most = missing_workers(run);
    if (most > 0 && is_worth_waking(saved_ns)) unpark_workers(section, most);
}

// Unparks or starts a worker for short runs that follow each other at once. Each alone is too short to pay for that,
// but not for a worker that spins from one run to the next. The worker is made available once the time that help would
// have saved in them adds up to its cost.
void Scheduler::unpark_for_short_runs(Section& section, const Context& run) {
    const double saved = remaining_shareable_ns(run) / 2;
    if (!(saved >= kWorthAwaitingNs) || missing_workers(run) <= 0) return;
    forgone_ns_ += saved;
    if (forgone_ns_ < std::max(kWorthStartingNs, worth_waking_ns_)) return;
    forgone_ns_ = 0;
    if (unpark_workers(section, 1) > 0 || has_workers_for(max_slots() - 1)) return;
    if (Worker* const started = start_worker()) become_idle(section, *started);
}

}  // namespace treadle
