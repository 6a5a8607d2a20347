#include "treadle/dispatcher.h"

#include <algorithm>
#include <utility>

#include "treadle/context.h"
#include "treadle/section.h"

namespace treadle {

namespace {

double remaining_ns(const Op& op) {
    return static_cast<double>(op.chunks.left()) * op.cost_per_chunk;
}

// Estimates the time that one more worker would save.
double saved_ns(const Op& op) { return remaining_ns(op) / (op.workers + 1); }

// Counts one more worker in an open op.
void join(Op& op) {
    ++op.workers;
    ++op.run->workers;
}

// Takes back what join() did.
void unjoin(Op& op) {
    --op.workers;
    --op.run->workers;
}

}  // namespace

int Dispatcher::others_working_beside(const Worker& worker) const {
    const bool holds_slot_here = worker.slot_holder->slots == &team_.slots && worker.slot_holder->slot >= 0;
    return team_.slots.capacity().working() - (holds_slot_here ? 1 : 0);
}

bool Dispatcher::has_permit_for(const Context& run, int others_working) const {
    return run.lent_permit_free || team_.slots.capacity().has_permit(others_working);
}

bool Dispatcher::can_start(const Context& run, int others_working) const {
    if (run.ready.empty()) return false;
    return run.ops < team_.runs.limits_of(run).inter_op && has_permit_for(run, others_working);
}

Op* Dispatcher::start_op(Context& run, std::uint32_t task) {
    Op* op = open_op(run, task, std::min(team_.runs.limits_of(run).intra_op, run.program.max_workers(task)));
    op->holds_lent_permit = team_.slots.take_permit(run);
    ++run.ops;
    ++run.workers;
    team_.runs.begin_turn(run);
    return op;
}

bool Dispatcher::must_yield_slot(const Worker& worker) const {
    if (worker.borrows_slot && (!worker.may_return_loan || worker.slot_holder->detached)) return false;
    const Capacity capacity = team_.slots.capacity();
    if (capacity.free_slots() < 0) return true;
    if (worker.own_run == nullptr) return false;
    if (worker.borrows_slot && capacity.permits_used > capacity.permit_limit) return true;  // see Slots::restore_loan()
    return team_.runs.starves_before(*worker.own_run);
}

// Returns whether the run's remaining serial work should execute on the thread of its caller, which spins. Otherwise
// the caller would park meanwhile and have to be woken for the end of the run.
bool Dispatcher::leave_to_caller(const Context& run) const {
    if (run.finished || run.workers > 0 || run.ready.size() != 1 || team_.runs.all().size() > 1) return false;
    if (!run.caller->idle || !is_spinning(*run.caller)) return false;
    const std::uint32_t task = run.ready.front();
    if (team_.runs.limits_of(run).intra_op > 1 && run.program.max_workers(task) > 1) return false;
    return run.program.tasks()[task].cost_ns >= run.program.hand_over().worth_calling_spinner_ns();
}

bool Dispatcher::can_run_serially(const Context& run, const Worker& caller) const {
    if (run.caller_waits || (run.program.has_blocking() && !run.nested)) return false;
    if (shareable_ns(run, team_.runs.limits_of(run)) >= run.program.worth_sharing_ns()) return false;
    if (!has_permit_for(run, others_working_beside(caller))) return false;
    return (caller.slot >= 0 || team_.slots.has_slot_for(caller)) && !must_yield_slot(caller);
}

// Returns the open op in which one more worker saves most, if that pays, else null.
Op* Dispatcher::best_open_op(const Context& run) const {
    if (run.is_cancelled()) return nullptr;  // written under the lock we hold
    Op* best = nullptr;
    double min_gain_ns = run.program.hand_over().worth_sharing_ns();
    const int most = team_.runs.limits_of(run).intra_op;
    for (Op* op : run.open) {
        const int cap = std::min(most, run.program.max_workers(op->task));
        if (op->workers >= std::min<std::int64_t>(cap, op->chunks.count())) continue;
        if (const double saved = saved_ns(*op); saved > min_gain_ns) {
            best = op;
            min_gain_ns = saved;
        }
    }
    return best;
}

// Returns the run whose next task the worker takes: a caller's own; else the first run that has a ready task. Among
// runs of equal priority one without a worker comes first, since a second worker for one run gains less than a first
// for another.
Context* Dispatcher::choose_run(const Worker& worker) {
    const int others = others_working_beside(worker);
    if (worker.own_run != nullptr) return can_start(*worker.own_run, others) ? worker.own_run : nullptr;
    Context* first = nullptr;
    for (Context* run : team_.runs.all()) {
        if (first != nullptr && run->priority < first->priority) break;
        if (!can_start(*run, others)) continue;
        if (run->workers == 0) return run;
        if (first != nullptr || !run->program.tasks()[run->ready.front()].worth_sharing) continue;
        if (chooser_.may_help(*run, run->ready_ns / 2, team_.slots.capacity().free_slots() + 1)) first = run;
    }
    return first;
}

Op* Dispatcher::next_op(Worker& worker) {
    if (Context* run = choose_run(worker)) return start_op(*run, pop_ready(*run));
    for (Context* run : team_.runs.all()) {
        if (worker.own_run != nullptr && run != worker.own_run) continue;
        Op* const op = best_open_op(*run);
        if (op == nullptr) continue;
        if (worker.own_run == nullptr &&
            !chooser_.may_help(*run, saved_ns(*op), team_.slots.capacity().free_slots() + 1)) {
            continue;
        }
        join(*op);
        return op;
    }
    return take_over_op(worker);
}

// Returns the op of an assignment that it revokes, which `for_whom` executes instead; null if there is none.
Op* Dispatcher::take_over_op(const Worker& for_whom) {
    const Worker* const before = team_.idle.revoke_one(
        [&](const Worker& worker) { return for_whom.own_run == nullptr || worker.op->run == for_whom.own_run; });
    return before == nullptr ? nullptr : before->op;
}

void Dispatcher::reclaim_slot(const Context& for_whom) {
    const Worker* const before = team_.idle.revoke_one([&](const Worker& worker) {
        return !worker.borrows_slot && worker.op->workers > 1 && worker.op->run->priority <= for_whom.priority;
    });
    if (before != nullptr) unjoin(*before->op);
}

// Revokes all assignments of a cancelled run, so that the run does not wait for their workers.
void Dispatcher::revoke_all(Section& section, Context& run) {
    while (const Worker* worker = team_.idle.revoke_one([&](const Worker& other) { return other.op->run == &run; })) {
        leave_op(section, *worker->op);
    }
}

void Dispatcher::leave_op(Section& section, Op& op) {
    Context& run = *op.run;
    const Task& task = run.program.tasks()[op.task];
    if (task.blocking && !run.nested) {
        team_.runs.end_blocking(op);
    } else {
        --run.workers;
        close_op(op);
        --op.workers;
        // No chunk is left to begin, so workers that have not accepted are not needed.
        const auto is_assigned = [&](const Worker& worker) { return worker.op == &op; };
        while (op.workers > 0 && team_.idle.revoke_one(is_assigned) != nullptr) unjoin(op);
        if (op.workers > 0) return;
        team_.slots.release_permit(run, op.holds_lent_permit);
        --run.ops;
        end_op(op);
    }
    if (!run.is_cancelled()) {  // written under the lock we hold
        ++run.finished_tasks;
        for (const std::uint32_t next : run.program.successors(task)) {
            if (--run.pending[next] == 0) team_.runs.queue(run, next);
        }
    }
    finish_if_done(section, run);
}

Op* Dispatcher::advance(Section& section, Worker& worker, Op& op) {
    Context& run = *op.run;
    team_.idle.note_helped(worker);
    leave_op(section, op);
    if (worker.own_run != nullptr && worker.own_run->finished) return nullptr;  // end_run() dispatches
    worker.ended_run = run.finished && !run.nested && worker.role == Role::compute;
    team_.runs.end_turn_if_over(run);
    const bool leaves = worker.role == Role::compute && leave_to_caller(run);
    const bool yields = must_yield_slot(worker);
    const bool stays = worker.role != Role::blocking && !leaves && !yields;
    Op* next = stays ? next_op(worker) : nullptr;
    if (next == nullptr) {
        if (yields) team_.slots.return_loan(worker);
        team_.slots.release(worker);
        team_.threads.become_idle(section, worker);
    }
    dispatch(section);
    return next;
}

void Dispatcher::dispatch(Section& section) {
    if (team_.runs.has_blocking_tasks()) dispatch_blocking(section);
    for (std::size_t i = 0; i < team_.runs.all().size(); ++i) {
        Context& run = *team_.runs.all()[i];
        if (run.finished || run.serial) continue;
        while (dispatch_start(section, run)) {
        }
        while (dispatch_join(section, run)) {
        }
        // Callers on the serial path hold what this run needs: the next epoch makes them take the lock.
        if (is_starved(run)) team_.slots.begin_epoch();
    }
}

bool Dispatcher::dispatch_start(Section& section, Context& run) {
    if (!can_start(run, team_.slots.capacity().working())) return false;
    double gain = 0;
    if (run.workers > 0) {
        if (!run.program.tasks()[run.ready.front()].worth_sharing) return false;
        gain = run.ready_ns / 2;
    }
    Worker* worker = chooser_.choose(section, run, gain);
    if (worker == nullptr) return false;
    team_.idle.assign(section, *worker, start_op(run, pop_ready(run)));
    return true;
}

bool Dispatcher::dispatch_join(Section& section, Context& run) {
    Op* op = best_open_op(run);
    if (op == nullptr) return false;
    Worker* worker = chooser_.choose(section, run, saved_ns(*op));
    if (worker == nullptr) return false;
    join(*op);
    team_.idle.assign(section, *worker, op);
    return true;
}

void Dispatcher::dispatch_blocking(Section& section) {
    const int most = team_.slots.capacity().permit_limit;
    while (team_.runs.has_blocking_tasks() && team_.runs.blocking_ops() < most) {
        Worker* worker = team_.idle.blocking_worker();
        if (worker == nullptr) worker = start_blocking_for(section, team_.runs.blocking_run());
        if (worker != nullptr) team_.idle.assign(section, *worker, team_.runs.begin_blocking());
    }
}

// Starts a blocking worker for the run. If none can be started, cancels the run and returns null.
Worker* Dispatcher::start_blocking_for(Section& section, Context& run) {
    try {
        return &team_.threads.start_blocking();
    } catch (...) {
        cancel(section, run, std::current_exception(), Cause::own);
        return nullptr;
    }
}

void Dispatcher::cancel(Section& section, Context& run, std::exception_ptr failure, Cause cause) {
    if (run.abandoned) return;
    if (!run.failure) run.failure = std::move(failure);
    if (cause == Cause::external) run.ended_externally = true;
    run.ending->ended.store(true, std::memory_order_relaxed);  // see Ending::ended
    team_.runs.drop_tasks(run);
    revoke_all(section, run);
    finish_if_done(section, run);
}

void Dispatcher::finish_if_done(Section& section, Context& run) {
    if (run.finished) return;
    if (run.ops > 0 || run.blocking_ops > 0) {
        if (!can_be_abandoned(run)) return;
        team_.runs.abandon(run, team_.slots);
        team_.threads.detach(run);
    }
    const bool all = run.finished_tasks == run.program.tasks().size();
    if (!all && !run.is_cancelled()) return;  // written under the lock we hold
    run.finished = true;
    if (!run.abandoned) run.program.reclaim_arena(run);
    if (!run.nested && run.caller->returns_soon) team_.slots.reserve(reservation_ns(run.program.fitted_cost_ns()));
    if (run.caller->idle) team_.idle.dismiss(section, *run.caller);
}

bool Dispatcher::end_detached(Section& section, Worker& worker, Context& run) {
    const bool is_last = drop_reference(run);
    team_.threads.end_detached(worker);
    dispatch(section);
    if (team_.closing) team_.ended.notify_all();
    return is_last;
}

}  // namespace treadle
