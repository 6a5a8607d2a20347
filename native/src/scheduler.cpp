// Runs: how a run begins, which path executes it, and how it ends.
#include "treadle/scheduler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "treadle/fork.h"
#include "treadle/trace.h"

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

// LastRun describes the last run that a thread called.
struct LastRun {
    int team = 0;
    std::int64_t end_ns = 0;
    std::int64_t reservation_ns = 0;  // a caller that returns within this time is expected to return again
    bool is_slot_reserved = false;
};

LastRun& last_run() {
    thread_local LastRun last;
    return last;
}

// Returns how long a slot is reserved for the caller of the run after its end.
std::int64_t reserved_ns_after(const Context& run) {
    return reservation_ns(run.program.hand_over().fitted_ns(run.program.cost_ns()));
}

int next_team_id() {
    static std::atomic<int> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // only uniqueness matters: no partner
}

}  // namespace

Scheduler::Scheduler(std::string name, Limits limits, std::chrono::nanoseconds spin_limit, std::vector<int> cpus,
                     std::vector<int> base_cpus)
    : name_(std::move(name)),
      id_(next_team_id()),
      generation_(fork_generation()),
      cpus_(std::move(cpus)),
      base_cpus_(std::move(base_cpus)),
      limits_(limits),
      spin_ns_(spin_limit.count()) {
    update_limits();
}

Scheduler::~Scheduler() = default;

Limits Scheduler::limits_of(const Context& run) const {
    return {run.limits.intra_op > 0 ? run.limits.intra_op : limits_.intra_op,
            run.limits.inter_op > 0 ? run.limits.inter_op : limits_.inter_op};
}

void Scheduler::update_limits() {
    int slots = std::max(limits_.intra_op, limits_.inter_op);
    int permits = limits_.inter_op;
    for (const Context* run : runs_) {
        const Limits limits = limits_of(*run);
        slots = std::max({slots, limits.intra_op, limits.inter_op});
        permits = std::max(permits, limits.inter_op);
    }
    slots_.set_limits(slots, permits);
    worker_limit_ = std::max(worker_limit_, static_cast<std::size_t>(slots - 1));
}

void Scheduler::run(std::unique_ptr<Context>& context, const Request& request) {
    Context& run = *context;
    Section section(*this);
    if (closing_) throw std::runtime_error("team '" + name_ + "' is closed");
    Worker& caller = *acquire_caller();
    begin_run(run, request, caller);
    caller.watch.start(request.poll, run.deadline, run.ending->outer.get());
    // A token that is cancelled later than here finds the run in runs_.
    if (request.token && request.token->cancelled()) {
        cancel(section, run, make_failure<RunCancelled>("the run was cancelled"), Cause::external);
    } else if (const Engine engine = engine_in_use(); engine && !run.caller_waits) {
        run_with_engine(section, run, caller, engine);
    } else if (can_run_serially(run, caller)) {
        run_serially(section, run, caller);
    } else {
        enqueue_tasks(run, 0);
    }
    finish_if_done(section, run);
    run_in_parallel(section, run, caller);
    const std::exception_ptr failure = std::exchange(run.failure, nullptr);
    end_run(section, run, caller);
    section.unlock();
    if (run.abandoned) {  // constant since `finished`, which this thread read under the lock
        run.kept_alive = request.keep_alive();
        std::unique_ptr<Context> abandoned(context.release());
        if (drop_reference(run)) {
            release(std::move(abandoned));
        } else {
            static_cast<void>(abandoned.release());
        }
    }
    if (failure) std::rethrow_exception(failure);
}

void Scheduler::begin_run(Context& run, const Request& request, Worker& caller) {
    reset(run);
    run.limit_sources = {request.own_limits.get(), request.limits, request.common_limits.get()};
    run.may_be_abandoned = request.keep_alive != nullptr;
    run.caller_waits = request.caller_waits && current_worker() == nullptr;
    run.priority = request.priority;
    run.deadline = request.deadline;
    run.fp_mode = caller.fp_mode = get_fp_mode();
    run.caller = &caller;
    caller.own_run = &run;
    caller.traced_team = id_;
    caller.borrows_slot = caller.may_return_loan = false;
    caller.lender = nullptr;
    caller.slot = -1;
    caller.slot_holder = &caller;
    if (const Worker* outer_worker = current_worker()) {
        run.nested = true;
        if (Context* outer = outer_worker->current_run) {
            run.ending->outer = outer->ending;
            run.priority = std::max(run.priority, outer->priority);
            run.deadline = std::min(run.deadline, outer->deadline);
            if (request.is_part && outer_worker->scheduler == this) run.outer = outer;
        }
        if (outer_worker->role != Role::blocking) {
            caller.borrows_slot = run.lent_permit_free = true;
            caller.may_return_loan = run.outer != nullptr &&
                                     (!outer_worker->borrows_slot || outer_worker->may_return_loan);
            caller.slot_holder = outer_worker->slot_holder;
            caller.traced_team = outer_worker->traced_team;
        }
    }
    run.limits = requested_limits(run);
    if (!run.nested) note_return(caller);
    enqueue_run(run);
    if (run.outer != nullptr) end_turn_if_over(run);
    if (run.limits.intra_op > 0 || run.limits.inter_op > 0) update_limits();
}

void Scheduler::end_run(Section& section, Context& run, Worker& caller) {
    if (caller.lender != nullptr && slots_.restore_loan(caller)) park_surplus_spinners();
    slots_.release(caller);
    if (!run.nested) last_run() = {id_, monotonic_ns(), reserved_ns_after(run), caller.returns_soon};
    std::erase(runs_, &run);
    run.caller = nullptr;
    caller.own_run = nullptr;
    free_callers_.push_back(&caller);
    if (run.limits.intra_op > 0 || run.limits.inter_op > 0) update_limits();
    dispatch(section);
    if (closing_) run_ended_.notify_all();
}

// Notes whether the caller returned soon after its last run; then it is expected to do so again.
void Scheduler::note_return(Worker& caller) {
    const LastRun& last = last_run();
    const std::int64_t away_ns = monotonic_ns() - last.end_ns;
    caller.returns_soon = last.team == id_ && away_ns < last.reservation_ns;
    caller.returns_at_once = caller.returns_soon && away_ns < spin_ns_.load(std::memory_order_relaxed);  // see spin_ns_
    if (caller.returns_soon && last.is_slot_reserved) slots_.drop_reservation();
}

// Returns whether the caller executes the run alone: other workers could take too little of it within its limits.
bool Scheduler::can_run_serially(const Context& run, const Worker& caller) const {
    if (run.caller_waits || (run.program.has_blocking() && !run.nested)) return false;
    if (shareable_ns(run) >= run.program.worth_sharing_ns()) return false;
    if (!has_permit_for(run, others_working_beside(caller))) return false;
    return (caller.slot >= 0 || slots_.has_slot_for(caller)) && !must_yield_slot(caller);
}

// The serial path: the caller executes the tasks in Program::order(), without the lock and without counters, on one
// slot and one permit. Returns when the run has finished, or when its remaining tasks are queued for the parallel path.
void Scheduler::run_serially(Section& section, Context& run, Worker& caller) {
    bool lent = slots_.take_permit(run);
    run.ops = 1;
    run.serial = true;
    begin_turn(run);
    take_slot(caller);
    std::size_t done = 0;
    for (;;) {
        const std::uint64_t epoch = slots_.epoch();
        const std::int64_t until_ns = end_of_turn(outermost(run));
        section.unlock();
        done = run_tasks_serially(caller, run, done, epoch, until_ns);
        section.lock();
        slots_.release_permit(run, lent);
        run.ops = 0;
        run.finished_tasks = done;
        if (done == run.program.order().size() || run.is_cancelled()) break;  // written under the lock we hold
        end_turn_if_over(run);
        if (!can_run_serially(run, caller)) break;
        lent = slots_.take_permit(run);
        run.ops = 1;
    }
    run.serial = false;
    if (done < run.program.order().size() && !run.is_cancelled()) enqueue_tasks(run, done);
    // On the parallel path each worker takes a slot itself.
    slots_.release(caller);
}

// The parallel path: the caller executes ops of the run, and other workers may too, until the run has finished.
void Scheduler::run_in_parallel(Section& section, Context& run, Worker& caller) {
    if (run.finished) return;
    Op* op = nullptr;
    if (!slots_.has_slot_for(caller)) reclaim_slot(run);
    const bool yields = must_yield_slot(caller);
    if (yields) slots_.return_loan(caller);
    if (!yields && !run.caller_waits && slots_.has_slot_for(caller)) {
        take_slot(caller);
        op = next_op(caller);
        if (op == nullptr) slots_.release(caller);
    }
    if (op == nullptr) become_idle(section, caller);
    dispatch(section);
    unpark_for_run(section, run, 0);
    if (!run.nested && caller.returns_at_once) unpark_for_short_runs(section, run);
    while (!run.finished) {
        section.unlock();
        if (op == nullptr) {
            wait_for_work(caller);
            // Relaxed: wait_for_work() has loaded or exchanged this value with acquire.
            if (caller.state.load(std::memory_order_relaxed) == State::working) op = caller.op;
        }
        if (op != nullptr) execute_op(caller, *op);
        section.lock();
        if (op != nullptr) op = advance(section, caller, *op);
    }
}

// Sets up the counters as if the first `done` tasks of the order had finished, and queues the tasks that are ready.
void Scheduler::enqueue_tasks(Context& run, std::size_t done) {
    seed(run, done);
    for (const std::uint32_t task : run.program.order().subspan(done)) {
        if (run.pending[task] > 0) continue;
        if (run.program.tasks()[task].blocking && !run.nested) {
            blocking_queue_.emplace_back(&run, task);
        } else {
            push_ready(run, task);
        }
    }
}

// Keeps the first failure of the run and drops the tasks that have not begun.
void Scheduler::cancel(Section& section, Context& run, std::exception_ptr failure, Cause cause) {
    if (run.abandoned) return;
    if (!run.failure) run.failure = std::move(failure);
    if (cause == Cause::external) run.ended_externally = true;
    run.ending->ended.store(true, std::memory_order_relaxed);  // see Ending::ended
    run.ready.clear();
    run.ready_ns = 0;
    std::erase_if(blocking_queue_, [&](const auto& entry) { return entry.first == &run; });
    revoke_all(section, run);
    finish_if_done(section, run);
}

void Scheduler::finish_if_done(Section& section, Context& run) {
    if (run.finished) return;
    if (run.ops > 0 || run.blocking_ops > 0) {
        if (!can_be_abandoned(run)) return;
        abandon(run);
    }
    const bool all = run.finished_tasks == run.program.tasks().size();
    if (!all && !run.is_cancelled()) return;  // written under the lock we hold
    run.finished = true;
    if (!run.abandoned) run.program.reclaim_arena(run);
    if (!run.nested && run.caller->returns_soon) slots_.reserve(reserved_ns_after(run));
    if (run.caller->idle) dismiss(section, *run.caller);
}

void Scheduler::set_limits(Limits limits) {
    Section section(*this);
    limits_ = limits;
    apply_limits(section);
}

void Scheduler::reload_limits() {
    Section section(*this);
    for (Context* run : runs_) run->limits = requested_limits(*run);
    apply_limits(section);
}

// Applies limits that have changed: ends surplus threads, parks surplus spinners, assigns work to new slots.
void Scheduler::apply_limits(Section& section) {
    worker_limit_ = 0;
    update_limits();
    slots_.begin_epoch();
    retire_surplus(section);
    park_surplus_spinners();
    dispatch(section);
    join_retired(section);
}

void Scheduler::close(bool should_cancel) {
    const Worker* inside = current_worker();
    if (inside != nullptr && inside->scheduler == this) {
        throw std::runtime_error("team '" + name_ + "': cannot be closed from inside one of its own steps");
    }
    Section section(*this);
    if (has_left_threads_) return;
    closing_ = true;
    if (should_cancel) cancel_all(section);
    section.wait(run_ended_, [this] { return runs_.empty(); });
    worker_limit_ = 0;
    retire_surplus(section);
    for (auto& worker : blocking_) {
        dismiss(section, *worker);
        retired_.push_back(std::move(worker));
    }
    blocking_.clear();
    join_retired(section);
}

void Scheduler::cancel_all(Section& section) {
    for (Context* run : runs_) {
        cancel(section, *run, make_failure<std::runtime_error>("team '" + name_ + "' was closed during the run"),
               Cause::external);
    }
    // Releasing the lock wakes workers that must act before their runs can end.
    section.unlock();
    section.lock();
}

void Scheduler::cancel_run(std::uint64_t run_id, std::exception_ptr failure) {
    Section section(*this);
    for (Context* run : runs_) {
        if (run->run_id != run_id) continue;
        if (!run->finished) cancel(section, *run, std::move(failure), Cause::external);
        return;
    }
}

void Scheduler::set_spin(std::chrono::nanoseconds limit) {
    spin_ns_.store(limit.count(), std::memory_order_relaxed);  // see spin_ns_
}

bool Scheduler::is_here() const { return generation_ == fork_generation(); }

Status Scheduler::status() {
    const Section section(*this);
    Status status;
    status.workers = static_cast<int>(workers_.size());
    status.blocking = static_cast<int>(blocking_.size());
    status.abandoned = static_cast<int>(detached_.size());
    const Capacity capacity = slots_.capacity();
    status.slots = capacity.slots_used;
    status.spinning = capacity.spinning;
    status.runs = static_cast<int>(runs_.size());
    status.wake_ups = wake_ups_;
    status.pin_fault = pin_fault_;
    status.thread_fault = thread_fault_;
    status.waiting = static_cast<int>(std::count_if(runs_.begin(), runs_.end(), [](const Context* run) {
        return !run->finished && !run->serial && run->workers == 0 && run->blocking_ops == 0;
    }));
    return status;
}

}  // namespace treadle
