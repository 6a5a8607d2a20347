#include "treadle/worker_chooser.h"

#include <algorithm>

#include "treadle/context.h"
#include "treadle/section.h"

namespace treadle {

Worker* WorkerChooser::choose(Section& section, Context& run, double gain_ns) {
    Help help{.must = run.workers == 0, .gain_ns = gain_ns};
    if (help.must && run.caller_waits) return worker_for_waiting(run);
    if (help.must && is_crowded(run)) {
        if (Worker* const worker = compute_worker()) return worker;
    }
    const bool has_caller = run.caller->idle && !run.caller_waits && team_.slots.has_slot_for(*run.caller);
    if (has_caller) help.caller = is_spinning(*run.caller) ? Idle::spinning : Idle::parked;
    if (help.goes_to_caller()) return run.caller;
    const HandOver& cost = run.program.hand_over();
    const int free_slots = team_.slots.capacity().free_slots();
    help.caller_borrows = run.caller->borrows_slot;
    help.has_free_slot = help.must ? free_slots > 0 : may_help(run, gain_ns, free_slots);
    Worker* const other = wants_other(help, cost) ? team_.idle.compute_worker() : nullptr;
    if (other != nullptr) help.other = is_spinning(*other) ? Idle::spinning : Idle::parked;
    help.remaining_ns = remaining_shareable_ns(run);
    help.may_start = !team_.threads.has_workers_for(team_.slots.capacity().max_slots() - 1);
    switch (choose_helper(help, cost)) {
        case Helper::caller: return run.caller;
        case Helper::other: return other;
        case Helper::other_if_worth_waking: return team_.idle.wakes().is_worth(gain_ns, cost) ? other : nullptr;
        case Helper::unpark: unpark_for_run(section, run, gain_ns); return nullptr;
        case Helper::start: return team_.threads.start_compute();
        case Helper::none: break;
    }
    return nullptr;
}

bool WorkerChooser::may_help(const Context& run, double gain_ns, int free_slots) {
    if (free_slots <= 0) return false;  // reads no clock
    const double fitted_gain_ns = run.program.hand_over().fitted_ns(gain_ns);
    return may_use_free_slot(fitted_gain_ns, free_slots, team_.slots.reserved(), run.in_host_steps >= run.workers);
}

double WorkerChooser::remaining_shareable_ns(const Context& run) const {
    const auto total = static_cast<double>(run.program.tasks().size());
    return shareable_ns(run, team_.runs.limits_of(run)) * (1 - static_cast<double>(run.finished_tasks) / total);
}

bool WorkerChooser::is_crowded(const Context& run) {
    const auto runs = static_cast<int>(team_.runs.all().size());
    return !run.nested && team_.slots.capacity().is_crowded(runs, team_.slots.reserved());
}

// Returns a compute worker for a run that has none and whose caller waits. Null if no slot is free. If no thread can be
// started, the caller executes the run after all.
Worker* WorkerChooser::worker_for_waiting(Context& run) {
    if (team_.slots.capacity().free_slots() <= 0) return nullptr;
    Worker* const worker = compute_worker();
    if (worker != nullptr || !run.caller->idle) return worker;
    run.caller_waits = false;
    return run.caller;
}

// Returns a compute worker for a run that its caller should not execute: in a crowd, where compute workers hold the
// slots and go from run to run. Otherwise a caller whose run has ended would have to wake the next caller. The
// operating system tends to let the woken thread run first, on the CPU that the waking one needs to return, so its
// result would arrive a run late. Null if there is no thread for it; then the run's caller executes the run after all.
Worker* WorkerChooser::compute_worker() {
    if (Worker* const idle = team_.idle.compute_worker()) return idle;
    if (team_.threads.has_workers_for(team_.slots.capacity().max_slots())) return nullptr;
    Worker* const worker = team_.threads.start_compute();
    if (worker != nullptr) team_.threads.raise_limit(static_cast<std::size_t>(team_.slots.capacity().max_slots()));
    return worker;
}

int WorkerChooser::missing_workers(const Context& run) {
    return team_.slots.capacity().missing_workers(team_.runs.limits_of(run), team_.slots.reserved());
}

void WorkerChooser::unpark_for_run(Section& section, const Context& run, double saved_ns) {
    const HandOver& cost = run.program.hand_over();
    if (remaining_shareable_ns(run) < 2 * cost.worth_waking_ns()) return;
    const int most = missing_workers(run);
    if (most > 0 && team_.idle.wakes().is_worth(saved_ns, cost)) team_.idle.unpark(section, most);
}

void WorkerChooser::unpark_for_short_runs(Section& section, const Context& run) {
    const double saved = remaining_shareable_ns(run) / 2;
    const HandOver& cost = run.program.hand_over();
    if (!(saved >= cost.worth_awaiting_ns()) || missing_workers(run) <= 0) return;
    forgone_ns_ += saved;
    if (forgone_ns_ < std::max(cost.worth_starting_ns(), team_.idle.wakes().least_ns(cost))) return;
    forgone_ns_ = 0;
    if (team_.idle.unpark(section, 1) > 0) return;
    if (team_.threads.has_workers_for(team_.slots.capacity().max_slots() - 1)) return;
    if (Worker* const started = team_.threads.start_compute()) team_.threads.become_idle(section, *started);
}

}  // namespace treadle
