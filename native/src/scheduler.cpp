// Runs: how a run begins, which path executes it, and how it ends.
#include "treadle/scheduler.h"

#include <atomic>
#include <stdexcept>
#include <utility>

#include "treadle/engine.h"
#include "treadle/fork.h"
#include "treadle/section.h"
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

// Notes whether the caller returned soon after its last run; then it is expected to do so again.
void note_return(TeamState& team, Worker& caller) {
    const LastRun& last = last_run();
    const std::int64_t away_ns = monotonic_ns() - last.end_ns;
    caller.returns_soon = last.team == team.id && away_ns < last.reservation_ns;
    caller.returns_at_once = caller.returns_soon && away_ns < team.idle.spin_limit().count();
    if (caller.returns_soon && last.is_slot_reserved) team.slots.drop_reservation();
}

int next_team_id() {
    static std::atomic<int> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // only uniqueness matters: no partner
}

}  // namespace

Scheduler::Scheduler(std::string name, Limits limits, std::chrono::nanoseconds spin_limit, std::vector<int> cpus,
                     std::vector<int> base_cpus)
    : generation_(fork_generation()),
      team_(*this, std::move(name), next_team_id(), limits, spin_limit, std::move(cpus), std::move(base_cpus)) {
    update_limits();
}

Scheduler::~Scheduler() = default;

void Scheduler::update_limits() {
    team_.runs.update_limits(team_.slots);
    team_.threads.raise_limit(static_cast<std::size_t>(team_.slots.capacity().slot_limit - 1));
}

void Scheduler::run(std::unique_ptr<Context>& context, const Request& request) {
    Context& run = *context;
    Section section(team_);
    if (team_.closing) throw std::runtime_error("team '" + team_.name + "' is closed");
    Worker& caller = team_.threads.acquire_caller();
    begin_run(run, request, caller);
    caller.watch.start(request.poll, run.deadline, run.ending->outer.get());
    // A token that is cancelled later than here finds the run in team_.runs.
    if (request.token && request.token->cancelled()) {
        dispatcher_.cancel(section, run, make_failure<RunCancelled>("the run was cancelled"), Cause::external);
    } else if (const Engine engine = engine_in_use(); engine && !run.caller_waits) {
        run_with_engine(section, run, caller, engine);
    } else if (dispatcher_.can_run_serially(run, caller)) {
        run_serially(section, run, caller);
    } else {
        team_.runs.queue_rest(run, 0);
    }
    dispatcher_.finish_if_done(section, run);
    run_in_parallel(section, run, caller);
    const std::exception_ptr failure = std::exchange(run.failure, nullptr);
    end_run(section, run, caller);
    section.unlock();
    if (run.abandoned) {  // constant since `finished`, which this thread read under the lock
        run.kept_alive = request.keep_alive();
        std::unique_ptr<Context> abandoned(context.release());
        section.lock();
        const bool is_last = drop_reference(run);
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
    team_.runs.add(run, request, caller);
    if (!run.nested) note_return(team_, caller);
    if (run.limits.intra_op > 0 || run.limits.inter_op > 0) update_limits();
}

void Scheduler::end_run(Section& section, Context& run, Worker& caller) {
    if (caller.lender != nullptr && team_.slots.restore_loan(caller)) team_.idle.park_surplus();
    team_.slots.release(caller);
    if (!run.nested) {
        last_run() = {team_.id, monotonic_ns(), reservation_ns(run.program.fitted_cost_ns()), caller.returns_soon};
    }
    team_.runs.remove(run);
    team_.threads.release_caller(caller);
    if (run.limits.intra_op > 0 || run.limits.inter_op > 0) update_limits();
    dispatcher_.dispatch(section);
    if (team_.closing) team_.ended.notify_all();
}

// The serial path: the caller executes the tasks in Program::order(), without the lock and without counters, on one
// slot and one permit. Returns when the run has finished, or when its remaining tasks are queued for the parallel path.
void Scheduler::run_serially(Section& section, Context& run, Worker& caller) {
    bool lent = team_.slots.take_permit(run);
    run.ops = 1;
    run.serial = true;
    team_.runs.begin_turn(run);
    team_.idle.take_slot(caller);
    std::size_t done = 0;
    for (;;) {
        const std::uint64_t epoch = team_.slots.epoch();
        const std::int64_t until_ns = team_.runs.end_of_turn(run);
        section.unlock();
        done = executor_.run_tasks(caller, run, done, epoch, until_ns);
        section.lock();
        team_.slots.release_permit(run, lent);
        run.ops = 0;
        run.finished_tasks = done;
        if (done == run.program.order().size() || run.is_cancelled()) break;  // written under the lock we hold
        team_.runs.end_turn_if_over(run);
        if (!dispatcher_.can_run_serially(run, caller)) break;
        lent = team_.slots.take_permit(run);
        run.ops = 1;
    }
    run.serial = false;
    if (done < run.program.order().size() && !run.is_cancelled()) team_.runs.queue_rest(run, done);
    // On the parallel path each worker takes a slot itself.
    team_.slots.release(caller);
}

// Another runtime's path: the caller executes the tasks in order, and the engine executes the chunks of each op that is
// worth it. The team's limits on slots and ops in progress do not apply, since its workers take no part.
void Scheduler::run_with_engine(Section& section, Context& run, Worker& caller, Engine engine) {
    run.ops = 1;
    run.serial = true;
    team_.slots.audit_counts().add_engine_slots(1);
    team_.idle.take_slot(caller);
    const std::uint64_t generation = fork_generation();
    std::size_t done = 0;
    while (done < run.program.order().size() && !run.is_cancelled()) {  // written under the lock we hold
        const std::uint64_t epoch = team_.slots.epoch();
        const int width = team_.runs.limits_of(run).intra_op;
        section.unlock();
        done = executor_.run_tasks_with_engine(caller, run, done, epoch, {engine, width, generation});
        section.lock();
    }
    run.ops = 0;
    run.serial = false;
    run.finished_tasks = done;
    team_.slots.release(caller);
    team_.slots.audit_counts().add_engine_slots(-1);
}

// The parallel path: the caller executes ops of the run, and other workers may too, until the run has finished.
void Scheduler::run_in_parallel(Section& section, Context& run, Worker& caller) {
    if (run.finished) return;
    Op* op = nullptr;
    if (!team_.slots.has_slot_for(caller)) dispatcher_.reclaim_slot(run);
    const bool yields = dispatcher_.must_yield_slot(caller);
    if (yields) team_.slots.return_loan(caller);
    if (!yields && !run.caller_waits && team_.slots.has_slot_for(caller)) {
        team_.idle.take_slot(caller);
        op = dispatcher_.next_op(caller);
        if (op == nullptr) team_.slots.release(caller);
    }
    if (op == nullptr) team_.threads.become_idle(section, caller);
    dispatcher_.dispatch(section);
    chooser_.unpark_for_run(section, run, 0);
    if (!run.nested && caller.returns_at_once) chooser_.unpark_for_short_runs(section, run);
    while (!run.finished) {
        section.unlock();
        if (op == nullptr) {
            loop_.wait_for_work(caller);
            // Relaxed: wait_for_work() has loaded or exchanged this value with acquire.
            if (caller.state.load(std::memory_order_relaxed) == State::working) op = caller.op;
        }
        if (op != nullptr) executor_.execute_op(caller, *op);
        section.lock();
        if (op != nullptr) op = dispatcher_.advance(section, caller, *op);
    }
}

void Scheduler::set_limits(Limits limits) {
    Section section(team_);
    team_.runs.set_limits(limits);
    apply_limits(section);
}

void Scheduler::reload_limits() {
    Section section(team_);
    team_.runs.reload_limits();
    apply_limits(section);
}

// Applies limits that have changed: ends surplus threads, parks surplus spinners, assigns work to new slots.
void Scheduler::apply_limits(Section& section) {
    team_.threads.set_limit(0);
    update_limits();
    team_.slots.begin_epoch();
    team_.threads.retire_surplus(section);
    team_.idle.park_surplus();
    dispatcher_.dispatch(section);
    team_.threads.join_retired(section);
}

void Scheduler::close(bool should_cancel) {
    const Worker* inside = current_worker();
    if (inside != nullptr && inside->scheduler == this) {
        throw std::runtime_error("team '" + team_.name + "': cannot be closed from inside one of its own steps");
    }
    Section section(team_);
    if (has_left_threads_) return;
    team_.closing = true;
    if (should_cancel) cancel_all(section);
    section.wait(team_.ended, [this] { return team_.runs.all().empty(); });
    team_.threads.set_limit(0);
    team_.threads.retire_surplus(section);
    team_.threads.retire_blocking(section);
    team_.threads.join_retired(section);
}

bool Scheduler::shut_down(Clock::time_point until) {
    constexpr std::chrono::milliseconds look_every{1};
    Section section(team_);
    team_.closing = true;
    cancel_all(section);
    while (!team_.runs.all().empty() || team_.threads.has_detached()) {
        if (Clock::now() >= until && team_.runs.is_only_in_host_steps()) break;
        section.wait_for(team_.ended, look_every);
    }
    team_.threads.retire_idle(section);
    has_left_threads_ = !team_.runs.all().empty() || team_.threads.has_detached();
    team_.threads.join_retired(section);
    return has_left_threads_;
}

void Scheduler::cancel_all(Section& section) {
    for (Context* run : team_.runs.all()) {
        const std::string text = "team '" + team_.name + "' was closed during the run";
        dispatcher_.cancel(section, *run, make_failure<std::runtime_error>(text), Cause::external);
    }
    // Releasing the lock wakes workers that must act before their runs can end.
    section.unlock();
    section.lock();
}

void Scheduler::cancel_run(std::uint64_t run_id, std::exception_ptr failure) {
    Section section(team_);
    Context* const run = team_.runs.find(run_id);
    if (run != nullptr && !run->finished) dispatcher_.cancel(section, *run, std::move(failure), Cause::external);
}

void Scheduler::set_spin(std::chrono::nanoseconds limit) { team_.idle.set_spin(limit); }

void Scheduler::serve(Worker& worker) { loop_.serve(worker); }

void Scheduler::set_cpus(std::vector<int> cpus, std::vector<int> base) {
    const Section section(team_);
    team_.threads.set_cpus(std::move(cpus), std::move(base));
}

void Scheduler::dispatch_while_resting() {
    if (!is_here()) return;
    Section section(team_);
    dispatcher_.dispatch(section);
}

void Scheduler::begin_resting(Worker& holder) {
    if (!is_here()) return;
    Section section(team_);
    if (holder.slot < 0 || holder.detached) return;
    holder.is_resting = true;
    team_.slots.begin_resting();
    dispatcher_.dispatch(section);
}

void Scheduler::end_resting(Worker& holder) {
    if (!is_here()) return;
    const Section section(team_);
    if (std::exchange(holder.is_resting, false)) team_.slots.end_resting();
}

bool Scheduler::is_here() const { return generation_ == fork_generation(); }

Status Scheduler::status() {
    const Section section(team_);
    Status status;
    team_.threads.describe(status);
    const Capacity capacity = team_.slots.capacity();
    status.slots = capacity.slots_used;
    status.spinning = capacity.spinning;
    status.runs = static_cast<int>(team_.runs.all().size());
    status.wake_ups = team_.idle.wake_ups();
    status.waiting = team_.runs.waiting();
    return status;
}

Resting::Resting() : slot_holder_(current_worker() == nullptr ? nullptr : current_worker()->slot_holder) {
    if (slot_holder_ != nullptr) slot_holder_->scheduler->begin_resting(*slot_holder_);
}

Resting::~Resting() {
    if (slot_holder_ != nullptr) slot_holder_->scheduler->end_resting(*slot_holder_);
}

}  // namespace treadle
