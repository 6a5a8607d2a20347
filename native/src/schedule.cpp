// Decisions: which worker does what next. Everything here needs the scheduler's lock.
#include <algorithm>

#include "treadle/scheduler.h"
#include "treadle/trace.h"

namespace treadle {

namespace {

double remaining_ns(const Op& op) {
    return static_cast<double>(op.chunks.left()) * op.cost_per_chunk;
}

// Estimates the time that one more worker would save.
double saved_ns(const Op& op) { return remaining_ns(op) / (op.workers + 1); }

}  // namespace

// Estimates the work that other workers could take from the run's caller within its limits.
double Scheduler::shareable_ns(const Context& run) const {
    const Limits limits = runs_.limits_of(run);
    return std::max(limits.intra_op > 1 ? run.program.divisible_ns() : 0,
                    limits.inter_op > 1 ? run.program.independent_ns() : 0);
}

double Scheduler::remaining_shareable_ns(const Context& run) const {
    const auto total = static_cast<double>(run.program.tasks().size());
    return shareable_ns(run) * (1 - static_cast<double>(run.finished_tasks) / total);
}

int Scheduler::others_working_beside(const Worker& worker) const {
    return slots_.capacity().working() - (worker.slot_holder->scheduler == this && worker.slot_holder->slot >= 0 ? 1 : 0);
}

bool Scheduler::has_permit_for(const Context& run, int others_working) const {
    return run.lent_permit_free || slots_.capacity().has_permit(others_working);
}

bool Scheduler::can_start(const Context& run, int others_working) const {
    if (run.ready.empty()) return false;
    return run.ops < runs_.limits_of(run).inter_op && has_permit_for(run, others_working);
}

Op* Scheduler::start_op(Context& run, std::uint32_t task) {
    Op* op = open_op(run, task, std::min(runs_.limits_of(run).intra_op, run.program.max_workers(task)));
    op->holds_lent_permit = slots_.take_permit(run);
    ++run.ops;
    ++run.workers;
    runs_.begin_turn(run);
    return op;
}

// Returns whether a caller must release its slot: to a run earlier in the queue that starves, or as there are too few
// slots.
bool Scheduler::must_yield_slot(const Worker& worker) const {
    if (worker.borrows_slot && (!worker.may_return_loan || worker.slot_holder->detached)) return false;
    const Capacity capacity = slots_.capacity();
    if (capacity.free_slots() < 0) return true;
    if (worker.own_run == nullptr) return false;
    if (worker.borrows_slot && capacity.permits_used > capacity.permit_limit) return true;  // see restore_loan()
    return runs_.starves_before(*worker.own_run);
}

// Returns whether the run's remaining serial work should execute on the thread of its caller, which spins. Otherwise
// the caller would park meanwhile and have to be woken for the end of the run.
bool Scheduler::leave_to_caller(const Context& run) const {
    if (run.finished || run.workers > 0 || run.ready.size() != 1 || runs_.all().size() > 1) return false;
    if (!run.caller->idle || !is_spinning(*run.caller)) return false;
    const std::uint32_t task = run.ready.front();
    if (runs_.limits_of(run).intra_op > 1 && run.program.max_workers(task) > 1) return false;
    return run.program.tasks()[task].cost_ns >= run.program.hand_over().worth_calling_spinner_ns();
}

// Returns the open op in which one more worker saves most, if that pays, else null.
Op* Scheduler::best_open_op(const Context& run) const {
    if (run.is_cancelled()) return nullptr;  // written under the lock we hold
    Op* best = nullptr;
    double min_gain_ns = run.program.hand_over().worth_sharing_ns();
    const int most = runs_.limits_of(run).intra_op;
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

// Returns whether a worker that would help a run which has a worker may use one of `free_slots`.
bool Scheduler::may_assign_helper(const Context& run, double gain_ns, int free_slots) {
    if (free_slots <= 0) return false;  // reads no clock
    const double fitted_gain_ns = run.program.hand_over().fitted_ns(gain_ns);
    return may_use_free_slot(fitted_gain_ns, free_slots, slots_.reserved(), run.in_host_steps >= run.workers);
}

// Returns the run whose next task the worker takes: a caller's own; else the first run that has a ready task. Among
// runs of equal priority one without a worker comes first, since a second worker for one run gains less than a first
// for another.
Context* Scheduler::choose_run(const Worker& worker) {
    const int others = others_working_beside(worker);
    if (worker.own_run != nullptr) return can_start(*worker.own_run, others) ? worker.own_run : nullptr;
    Context* first = nullptr;
    for (Context* run : runs_.all()) {
        if (first != nullptr && run->priority < first->priority) break;
        if (!can_start(*run, others)) continue;
        if (run->workers == 0) return run;
        if (first != nullptr || !run->program.tasks()[run->ready.front()].worth_sharing) continue;
        if (may_assign_helper(*run, run->ready_ns / 2, slots_.capacity().free_slots() + 1)) first = run;
    }
    return first;
}

// Returns the op that a worker with a slot executes next: a ready task, an open op to join, or an assignment taken
// over.
Op* Scheduler::next_op(Worker& worker) {
    if (Context* run = choose_run(worker)) return start_op(*run, pop_ready(*run));
    for (Context* run : runs_.all()) {
        if (worker.own_run != nullptr && run != worker.own_run) continue;
        Op* const op = best_open_op(*run);
        if (op == nullptr) continue;
        if (worker.own_run == nullptr && !may_assign_helper(*run, saved_ns(*op), slots_.capacity().free_slots() + 1)) continue;
        ++op->workers;
        ++run->workers;
        return op;
    }
    return take_over_op(worker);
}

// Revokes the assignment of the first worker that `matches` and has not accepted. Returns that worker, or null if there
// is none.
template <typename Matches>
Worker* Scheduler::revoke_one(const Matches& matches) {
    for (std::size_t i = 0; i < assigned_.size();) {
        Worker& worker = *assigned_[i];
        // Relaxed: a hint, since the worker may accept at any time. revoke() decides; partner: accept().
        const bool is_assigned = worker.state.load(std::memory_order_relaxed) == State::assigned;
        if (is_assigned && !matches(worker)) {
            ++i;
            continue;
        }
        assigned_[i] = assigned_.back();
        assigned_.pop_back();
        worker.is_listed = false;
        if (is_assigned && revoke(worker)) return &worker;
    }
    return nullptr;
}

// Returns the op of an assignment that it revokes, which `for_whom` executes instead; null if there is none.
Op* Scheduler::take_over_op(const Worker& for_whom) {
    const Worker* const before = revoke_one(
        [&](const Worker& worker) { return for_whom.own_run == nullptr || worker.op->run == for_whom.own_run; });
    return before == nullptr ? nullptr : before->op;
}

// Frees a slot for the caller of `for_whom`: revokes an assignment to help with an op of a run whose priority is no
// higher.
void Scheduler::reclaim_slot(const Context& for_whom) {
    const Worker* const before = revoke_one([&](const Worker& worker) {
        return !worker.borrows_slot && worker.op->workers > 1 && worker.op->run->priority <= for_whom.priority;
    });
    if (before == nullptr) return;
    --before->op->workers;
    --before->op->run->workers;
}

// Revokes all assignments of a cancelled run, so that the run does not wait for their workers.
void Scheduler::revoke_all(Section& section, Context& run) {
    while (const Worker* worker = revoke_one([&](const Worker& other) { return other.op->run == &run; })) {
        leave_op(section, *worker->op);
    }
}

void Scheduler::leave_op(Section& section, Op& op) {
    Context& run = *op.run;
    const Task& task = run.program.tasks()[op.task];
    const std::uint32_t index = op.task;
    if (task.blocking && !run.nested) {
        runs_.end_blocking(op);
    } else {
        --run.workers;
        close_op(op);
        --op.workers;
        // No chunk is left to begin, so workers that have not accepted are not needed.
        while (op.workers > 0 && revoke_one([&](const Worker& worker) { return worker.op == &op; }) != nullptr) {
            --run.workers;
            --op.workers;
        }
        if (op.workers > 0) return;
        slots_.release_permit(run, op.holds_lent_permit);
        --run.ops;
        end_op(op);
    }
    if (!run.is_cancelled()) {  // written under the lock we hold
        ++run.finished_tasks;
        for (const std::uint32_t next : run.program.successors(run.program.tasks()[index])) {
            if (--run.pending[next] == 0) runs_.queue(run, next);
        }
    }
    finish_if_done(section, run);
}

// Leaves `op` and returns the worker's next op. Null: the worker's own run has finished, or the worker is idle now and
// must call wait_for_work(). It becomes idle before dispatch() looks for work, so no work is missed.
Op* Scheduler::advance(Section& section, Worker& worker, Op& op) {
    Context& run = *op.run;
    if (worker.was_woken) note_woken(worker, true);
    leave_op(section, op);
    if (worker.own_run != nullptr && worker.own_run->finished) return nullptr;  // end_run() dispatches
    worker.ended_run = run.finished && !run.nested && worker.role == Role::compute;
    runs_.end_turn_if_over(run);
    const bool leaves = worker.role == Role::compute && leave_to_caller(run);
    const bool yields = must_yield_slot(worker);
    const bool stays = worker.role != Role::blocking && !leaves && !yields;
    Op* next = stays ? next_op(worker) : nullptr;
    if (next == nullptr) {
        if (yields) slots_.return_loan(worker);
        slots_.release(worker);
        become_idle(section, worker);
    }
    dispatch(section);
    return next;
}

// Assigns tasks to start and ops to join, first run first, to idle workers where that pays. A run without a worker
// always gets one.
void Scheduler::dispatch(Section& section) {
    dispatch_blocking(section);
    for (std::size_t i = 0; i < runs_.all().size(); ++i) {
        Context& run = *runs_.all()[i];
        if (run.finished || run.serial) continue;
        while (dispatch_start(section, run)) {
        }
        while (dispatch_join(section, run)) {
        }
        // Callers on the serial path hold what this run needs: the next epoch makes them take the lock.
        if (is_starved(run)) slots_.begin_epoch();
    }
}

bool Scheduler::dispatch_start(Section& section, Context& run) {
    if (!can_start(run, slots_.capacity().working())) return false;
    double gain = 0;
    if (run.workers > 0) {
        if (!run.program.tasks()[run.ready.front()].worth_sharing) return false;
        gain = run.ready_ns / 2;
    }
    Worker* worker = choose_worker(section, run, gain);
    if (worker == nullptr) return false;
    assign(section, *worker, start_op(run, pop_ready(run)));
    return true;
}

bool Scheduler::dispatch_join(Section& section, Context& run) {
    Op* op = best_open_op(run);
    if (op == nullptr) return false;
    Worker* worker = choose_worker(section, run, saved_ns(*op));
    if (worker == nullptr) return false;
    ++op->workers;
    ++run.workers;
    assign(section, *worker, op);
    return true;
}

void Scheduler::dispatch_blocking(Section& section) {
    while (runs_.has_blocking_task(slots_.capacity().permit_limit)) {
        Worker* const worker =
            idle_blocking_.empty() ? start_blocking_for(section, runs_.blocking_run()) : idle_blocking_.back();
        if (worker != nullptr) assign(section, *worker, runs_.begin_blocking());
    }
}

}  // namespace treadle
