// Runs: how a run begins, which path executes it, and how it ends.
#include "treadle/scheduler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "treadle/fork.h"
#include "treadle/trace.h"

namespace treadle {

namespace {

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
      runs_(limits),
      spin_ns_(spin_limit.count()) {
    update_limits();
}

Scheduler::~Scheduler() = default;

void Scheduler::update_limits() {
    runs_.update_limits(slots_);
    worker_limit_ = std::max(worker_limit_, static_cast<std::size_t>(slots_.capacity().slot_limit - 1));
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
        runs_.queue_rest(run, 0);
    }
    finish_if_done(section, run);
    run_in_parallel(section, run, caller);
    const std::exception_ptr failure = std::exchange(run.failure, nullptr);
    end_run(section, run, caller);
    section.unlock();
    if (run.abandoned) {  // constant since `finished`, which this thread read under the lock
        run.kept_alive = request.keep_alive();
        std::unique_ptr<Context> abandoned(context.release());
        section.lock();
        const bool is_last = RunRegistry::drop_reference(run);
        section.unlock();
        if (is_last) {
            release(std::move(abandoned));
        } else {
            static_cast<void>(abandoned.release());
        }
    }
    if (failure) std::rethrow_exception(failure);
}

void Scheduler::begin_run(Context& run, const Request& request, Worker& caller) {
    runs_.add(run, request, caller);
    if (!run.nested) note_return(caller);
    if (run.limits.intra_op > 0 || run.limits.inter_op > 0) update_limits();
}

void Scheduler::end_run(Section& section, Context& run, Worker& caller) {
    if (caller.lender != nullptr && slots_.restore_loan(caller)) park_surplus_spinners();
    slots_.release(caller);
    if (!run.nested) last_run() = {id_, monotonic_ns(), reserved_ns_after(run), caller.returns_soon};
    runs_.remove(run);
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
    runs_.begin_turn(run);
    take_slot(caller);
    std::size_t done = 0;
    for (;;) {
        const std::uint64_t epoch = slots_.epoch();
        const std::int64_t until_ns = runs_.end_of_turn(run);
        section.unlock();
        done = run_tasks_serially(caller, run, done, epoch, until_ns);
        section.lock();
        slots_.release_permit(run, lent);
        run.ops = 0;
        run.finished_tasks = done;
        if (done == run.program.order().size() || run.is_cancelled()) break;  // written under the lock we hold
        runs_.end_turn_if_over(run);
        if (!can_run_serially(run, caller)) break;
        lent = slots_.take_permit(run);
        run.ops = 1;
    }
    run.serial = false;
    if (done < run.program.order().size() && !run.is_cancelled()) runs_.queue_rest(run, done);
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

// Keeps the first failure of the run and drops the tasks that have not begun.
void Scheduler::cancel(Section& section, Context& run, std::exception_ptr failure, Cause cause) {
    if (run.abandoned) return;
    if (!run.failure) run.failure = std::move(failure);
    if (cause == Cause::external) run.ended_externally = true;
    run.ending->ended.store(true, std::memory_order_relaxed);  // see Ending::ended
    runs_.drop_tasks(run);
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
    runs_.set_limits(limits);
    apply_limits(section);
}

void Scheduler::reload_limits() {
    Section section(*this);
    runs_.reload_limits();
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
    section.wait(run_ended_, [this] { return runs_.all().empty(); });
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
    for (Context* run : runs_.all()) {
        cancel(section, *run, make_failure<std::runtime_error>("team '" + name_ + "' was closed during the run"),
               Cause::external);
    }
    // Releasing the lock wakes workers that must act before their runs can end.
    section.unlock();
    section.lock();
}

void Scheduler::cancel_run(std::uint64_t run_id, std::exception_ptr failure) {
    Section section(*this);
    Context* const run = runs_.find(run_id);
    if (run != nullptr && !run->finished) cancel(section, *run, std::move(failure), Cause::external);
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
    status.runs = static_cast<int>(runs_.all().size());
    status.wake_ups = wake_ups_;
    status.pin_fault = pin_fault_;
    status.thread_fault = thread_fault_;
    status.waiting = runs_.waiting();
    return status;
}

}  // namespace treadle
