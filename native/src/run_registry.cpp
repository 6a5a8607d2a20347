#include "treadle/run_registry.h"

#include <algorithm>
#include <vector>

#include "treadle/fp_mode.h"
#include "treadle/policy.h"
#include "treadle/trace.h"
#include "treadle/worker.h"

namespace treadle {

namespace {

// Returns the limits that the run's sources set or, where they set none, those of the run that it is a part of.
Limits requested_limits(const Context& run) {
    Limits limits = run.limit_sources.limits();
    if (run.outer == nullptr) return limits;
    const Limits outer = requested_limits(*run.outer);
    if (limits.intra_op == 0) limits.intra_op = outer.intra_op;
    if (limits.inter_op == 0) limits.inter_op = outer.inter_op;
    return limits;
}

// Gives a run what it inherits from the run around the step of `around`, and its caller the slot of that worker.
void nest(Context& run, const Request& request, Worker& caller, const Worker& around) {
    run.nested = true;
    if (Context* outer = around.current_run) {
        run.ending->outer = outer->ending;
        run.priority = std::max(run.priority, outer->priority);
        run.deadline = std::min(run.deadline, outer->deadline);
        if (request.is_part && around.scheduler == caller.scheduler) run.outer = outer;
    }
    if (around.role == Role::blocking) return;
    caller.borrows_slot = run.lent_permit_free = true;
    caller.may_return_loan = run.outer != nullptr && (!around.borrows_slot || around.may_return_loan);
    caller.slot_holder = around.slot_holder;
    caller.traced_team = around.traced_team;
}

}  // namespace

void RunRegistry::add(Context& run, const Request& request, Worker& caller) {
    const Worker* const around = current_worker();
    reset(run);
    run.limit_sources = {request.own_limits.get(), request.limits, request.common_limits.get()};
    run.may_be_abandoned = request.keep_alive != nullptr;
    run.caller_waits = request.caller_waits && around == nullptr;
    run.priority = request.priority;
    run.deadline = request.deadline;
    run.fp_mode = caller.fp_mode = get_fp_mode();
    run.caller = &caller;
    caller.own_run = &run;
    if (around != nullptr) nest(run, request, caller, *around);
    run.limits = requested_limits(run);
    enqueue(run);
    if (run.outer != nullptr) end_turn_if_over(run);
}

void RunRegistry::remove(Context& run) {
    std::erase(runs_, &run);
    run.caller->own_run = nullptr;
    run.caller = nullptr;
}

Context* RunRegistry::find(std::uint64_t run_id) const {
    const auto at = std::find_if(runs_.begin(), runs_.end(), [&](const Context* run) { return run->run_id == run_id; });
    return at == runs_.end() ? nullptr : *at;
}

int RunRegistry::waiting() const {
    return static_cast<int>(std::count_if(runs_.begin(), runs_.end(), [](const Context* run) {
        return !run->finished && !run->serial && run->workers == 0 && run->blocking_ops == 0;
    }));
}

void RunRegistry::reload_limits() {
    for (Context* run : runs_) run->limits = requested_limits(*run);
}

void RunRegistry::update_limits(Slots& slots) const {
    int most_slots = std::max(limits_.intra_op, limits_.inter_op);
    int most_permits = limits_.inter_op;
    for (const Context* run : runs_) {
        const Limits limits = limits_of(*run);
        most_slots = std::max({most_slots, limits.intra_op, limits.inter_op});
        most_permits = std::max(most_permits, limits.inter_op);
    }
    slots.set_limits(most_slots, most_permits);
}

// Queues the run behind those of its own priority and higher ones; a part right behind the run around it.
void RunRegistry::enqueue(Context& run) {
    auto at = runs_.end();
    if (run.outer != nullptr && run.outer->priority == run.priority) {
        at = std::find(runs_.begin(), runs_.end(), run.outer);
        if (at != runs_.end()) ++at;
    }
    if (at == runs_.end()) {
        const auto is_later = [&](const Context* other) { return other->priority < run.priority; };
        at = std::find_if(runs_.begin(), runs_.end(), is_later);
    }
    runs_.insert(at, &run);
}

void RunRegistry::begin_turn(Context& run) {
    Context& whole = outermost(run);
    if (whole.turn_began_ns == 0) whole.turn_began_ns = monotonic_ns();
}

std::int64_t RunRegistry::end_of_turn(Context& run) const {
    const Context& whole = outermost(run);
    Waiting behind = Waiting::nobody;
    const double left = remaining_ns(whole);
    for (auto other = std::find(runs_.begin(), runs_.end(), &whole); other != runs_.end(); ++other) {
        if ((*other)->priority != whole.priority || !is_starved(**other)) continue;
        const Context& other_whole = outermost(**other);
        if (&other_whole == &whole) continue;
        behind = remaining_ns(other_whole) < left ? Waiting::shorter_run : Waiting::runs;
        if (behind == Waiting::shorter_run) break;
    }
    return turn_end_ns(whole.turn_began_ns, whole.program.fitted_cost_ns(), behind);
}

void RunRegistry::end_turn_if_over(Context& run) {
    const Context& whole = outermost(run);
    if (run.finished || whole.turn_began_ns == 0) return;
    const std::int64_t end = end_of_turn(run);
    if (end == kEndlessNs || monotonic_ns() < end) return;  // most turns have no end: reads no clock for them
    std::vector<Context*> again;
    for (Context* other : runs_) {
        if (&outermost(*other) == &whole) again.push_back(other);
    }
    std::erase_if(runs_, [&](Context* other) { return &outermost(*other) == &whole; });
    for (Context* each : again) {
        enqueue(*each);
        each->turn_began_ns = 0;
    }
}

bool RunRegistry::starves_before(Context& run) const {
    const Context* const whole = &outermost(run);
    for (const Context* other : runs_) {
        if (other == whole || other == &run) return false;
        if (is_starved(*other)) return true;
    }
    return false;
}

void RunRegistry::queue(Context& run, std::uint32_t task) {
    if (run.program.tasks()[task].blocking && !run.nested) {
        blocking_tasks_.emplace_back(&run, task);
    } else {
        push_ready(run, task);
    }
}

void RunRegistry::queue_rest(Context& run, std::size_t done) {
    seed(run, done);
    for (const std::uint32_t task : run.program.order().subspan(done)) {
        if (run.pending[task] == 0) queue(run, task);
    }
}

void RunRegistry::drop_tasks(Context& run) {
    run.ready.clear();
    run.ready_ns = 0;
    std::erase_if(blocking_tasks_, [&](const auto& entry) { return entry.first == &run; });
}

Op* RunRegistry::begin_blocking() {
    const auto [run, task] = blocking_tasks_.front();
    blocking_tasks_.pop_front();
    ++blocking_ops_;
    ++run->blocking_ops;
    return open_op(*run, task, 1);
}

void RunRegistry::end_blocking(Op& op) {
    --blocking_ops_;
    --op.run->blocking_ops;
    end_op(op);
}

void RunRegistry::abandon(Context& run, Slots& slots) {
    slots.release_permits(run);
    // The permits of these ops include those that parts have returned already.
    for (Context* part : runs_) {
        if (&outermost(*part) == &run) slots.restore_permit(*part);
    }
    blocking_ops_ -= run.blocking_ops;
    run.abandoned = true;
    // The other sources belong to the caller, and parts of the run may still read its limits.
    run.limit_sources = {nullptr, run.limits, nullptr};
    run.references = run.in_host_steps + 1;
}

bool RunRegistry::is_only_in_host_steps() const {
    return std::all_of(runs_.begin(), runs_.end(), [](const Context* run) {
        return run->in_host_steps >= (run->serial ? 1 : run->workers + run->blocking_ops);
    });
}

bool can_be_abandoned(const Context& run) {
    return run.may_be_abandoned && run.ended_externally && !run.serial && run.caller->host_run != &run &&
           run.in_host_steps == run.workers + run.blocking_ops;
}

}  // namespace treadle
