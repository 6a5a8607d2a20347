// Runs: how one begins, which way it is worked on, how it ends.
#include "treadle/scheduler.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "treadle/cost.h"
#include "treadle/fork.h"
#include "treadle/trace.h"

namespace treadle {

namespace {

// What the sources of the run come to and, where they say nothing, those of the run that it is a part of.
Limits asked_by(const Context& run) {
    Limits asked = run.sources.limits();
    if (run.around == nullptr) return asked;
    const Limits outer = asked_by(*run.around);
    if (asked.intra_op == 0) asked.intra_op = outer.intra_op;
    if (asked.inter_op == 0) asked.inter_op = outer.inter_op;
    return asked;
}

// The last run that this thread called.
struct LastRun {
    int team = 0;
    std::int64_t end_ns = 0;
    std::int64_t reservation_ns = 0;  // who calls the next one within that is expected to do so again
    bool is_slot_reserved = false;
};

LastRun& last_run() {
    thread_local LastRun last;
    return last;
}

// How long a place is kept for the caller of this run when it has ended.
std::int64_t reservation_ns(const Context& run) {
    return static_cast<std::int64_t>(std::clamp(kReservationPart * run.program.cost_ns(), kMinReservationNs, kMaxReservationNs));
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
    update_caps();
}

Scheduler::~Scheduler() = default;

Limits Scheduler::limits_of(const Context& run) const {
    return {run.asked.intra_op > 0 ? run.asked.intra_op : limits_.intra_op,
            run.asked.inter_op > 0 ? run.asked.inter_op : limits_.inter_op};
}

void Scheduler::update_caps() {
    slot_limit_ = std::max(limits_.intra_op, limits_.inter_op);
    permit_limit_ = limits_.inter_op;
    for (const Context* run : runs_) {
        const Limits limits = limits_of(*run);
        slot_limit_ = std::max({slot_limit_, limits.intra_op, limits.inter_op});
        permit_limit_ = std::max(permit_limit_, limits.inter_op);
    }
    workers_wanted_ = std::max(workers_wanted_, static_cast<std::size_t>(slot_limit_ - 1));
}

void Scheduler::run(std::unique_ptr<Context>& context, const Request& request) {
    Context& run = *context;
    Section section(*this);
    if (closing_) throw std::runtime_error("team '" + name_ + "' is closed");
    Worker& caller = *acquire_caller();
    begin(run, request, caller);
    caller.watch.start(request.poll, run.deadline, run.ending->around.get());
    // Who cancels later finds the run listed.
    if (request.token && request.token->cancelled()) {
        cancel(section, run, made_failure<RunCancelled>("the run was cancelled"), Cause::outside);
    } else if (const Engine engine = engine_in_use()) {
        drive(section, run, caller, engine);
    } else if (may_walk(run, caller)) {
        walk(section, run, caller);
    } else {
        enlist(run, 0);
    }
    finish_if_done(section, run);
    share(section, run, caller);
    const std::exception_ptr failure = std::exchange(run.failure, nullptr);
    end(section, run, caller);
    section.unlock();
    if (run.abandoned) {  // constant since it was finished, which this thread has seen under the lock
        run.kept = request.keep();
        std::unique_ptr<Context> left(context.release());
        if (part(run)) {
            release(std::move(left));
        } else {
            static_cast<void>(left.release());
        }
    }
    if (failure) std::rethrow_exception(failure);
}

void Scheduler::begin(Context& run, const Request& request, Worker& caller) {
    prepare(run);
    run.sources = {request.own.get(), request.asked, request.common.get()};
    run.may_be_abandoned = request.keep != nullptr;
    run.priority = request.priority;
    run.deadline = request.deadline;
    run.fp_mode = caller.fp_mode = get_fp_mode();
    run.caller = &caller;
    caller.own = &run;
    caller.traced_team = id_;
    caller.borrows_slot = false;
    caller.slot = -1;
    caller.holder = &caller;
    if (const Worker* outer = current_worker()) {
        run.nested = true;
        if (const Context* around = outer->running) {
            run.ending->around = around->ending;
            run.priority = std::max(run.priority, around->priority);
            run.deadline = std::min(run.deadline, around->deadline);
            if (request.is_part && outer->scheduler == this) run.around = around;
        }
        if (outer->role != Role::blocking) {
            caller.borrows_slot = run.lent_permit_free = true;
            caller.slot = outer->slot;
            caller.holder = outer->holder;
            caller.traced_team = outer->traced_team;
        }
    }
    run.asked = asked_by(run);
    if (!run.nested) come_back(caller);
    stand_in_line(run);
    if (run.asked.intra_op > 0 || run.asked.inter_op > 0) update_caps();
}

void Scheduler::end(Section& section, Context& run, Worker& caller) {
    release_slot(caller);
    if (!run.nested) last_run() = {id_, monotonic_ns(), reservation_ns(run), caller.comes_back};
    std::erase(runs_, &run);
    run.caller = nullptr;
    caller.own = nullptr;
    free_callers_.push_back(&caller);
    if (run.asked.intra_op > 0 || run.asked.inter_op > 0) update_caps();
    dispatch(section);
    if (closing_) quieter_.notify_all();
}

// Callers that come back at once are expected to do so again.
void Scheduler::come_back(Worker& caller) {
    const LastRun& last = last_run();
    const std::int64_t away_ns = monotonic_ns() - last.end_ns;
    caller.comes_back = last.team == id_ && away_ns < last.reservation_ns;
    caller.comes_at_once = caller.comes_back && away_ns < spin_ns_.load(std::memory_order_relaxed);  // see spin_ns_
    if (caller.comes_back && last.is_slot_reserved && !reservations_.empty()) reservations_.pop_front();
}

// Whether the run is one for its caller alone: because there is too little in it to share, within its limits.
bool Scheduler::may_walk(const Context& run, const Worker& caller) const {
    if (run.program.has_blocking() && !run.nested) return false;
    if (shareable_ns(run) >= run.program.worth_sharing_ns()) return false;
    return has_permit_for(run, working_beside(caller)) && (caller.slot >= 0 || has_slot_for(caller)) && !must_yield(caller);
}

// The fast path: the caller walks through the program's order, without the lock and without counters, on one place
// and one op's token. Ends with the run finished, or enlisted to be shared from where the walk got to.
void Scheduler::walk(Section& section, Context& run, Worker& caller) {
    const bool lent = std::exchange(run.lent_permit_free, false);
    if (!lent) ++permits_used_;
    run.ops = 1;
    run.serial = true;
    run.turn_began_ns = monotonic_ns();
    take_slot(caller);
    std::size_t done = 0;
    for (;;) {
        const std::uint64_t epoch = epoch_.load(std::memory_order_relaxed);  // written under the lock we hold
        const std::int64_t until_ns = turn_end_ns(run);
        section.unlock();
        done = walk_tasks(caller, run, done, epoch, until_ns);
        section.lock();
        if (!lent) --permits_used_;
        run.lent_permit_free = lent;
        run.ops = 0;
        run.finished_tasks = done;
        if (done == run.program.order().size() || run.is_cancelled()) break;  // as above
        end_turn_if_over(run);
        if (!may_walk(run, caller)) break;
        run.lent_permit_free = false;
        if (!lent) ++permits_used_;
        run.ops = 1;
    }
    run.serial = false;
    if (done < run.program.order().size() && !run.is_cancelled()) enlist(run, done);
    // Whoever shares the run from here on begins without a place.
    release_slot(caller);
}

// The general path: the caller works on the run's ops, and others may too, until the run has finished.
void Scheduler::share(Section& section, Context& run, Worker& caller) {
    if (run.finished) return;
    Op* op = nullptr;
    if (!has_slot_for(caller)) reclaim_slot(run);
    if (has_slot_for(caller) && !must_yield(caller)) {
        take_slot(caller);
        op = pick(caller);
        if (op == nullptr) release_slot(caller);
    }
    if (op == nullptr) become_idle(section, caller);
    dispatch(section);
    unpark_for_run(section, run);
    if (!run.nested && caller.comes_at_once) unpark_for_short_runs(section, run);
    while (!run.finished) {
        section.unlock();
        if (op == nullptr) {
            wait_for_work(caller);
            // Relaxed: wait_for_work() has read or written this value with acquire.
            if (caller.state.load(std::memory_order_relaxed) == State::working) op = caller.op;
        }
        if (op != nullptr) work_on(caller, *op);
        section.lock();
        if (op != nullptr) op = after(section, caller, *op);
    }
}

// Sets up counters as if the first `done` tasks of the order had finished, and lists what is ready.
void Scheduler::enlist(Context& run, std::size_t done) {
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

// Keeps the first failure, and drops what has not begun. Needs the lock.
void Scheduler::cancel(Section& section, Context& run, std::exception_ptr failure, Cause cause) {
    if (run.abandoned) return;
    if (!run.failure) run.failure = std::move(failure);
    if (cause == Cause::outside) run.ended_from_outside = true;
    run.ending->ended.store(true, std::memory_order_relaxed);  // a hint to others; the lock orders the rest
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
    if (!run.abandoned) run.program.take_back_arena(run);
    if (!run.nested && run.caller->comes_back) reserve_slot(reservation_ns(run));
    if (run.caller->idle) dismiss(section, *run.caller);
}

void Scheduler::set_limits(Limits limits) {
    Section section(*this);
    limits_ = limits;
    revise(section);
}

void Scheduler::revise_runs() {
    Section section(*this);
    for (Context* run : runs_) run->asked = asked_by(*run);
    revise(section);
}

// Acts on limits that have changed.
void Scheduler::revise(Section& section) {
    workers_wanted_ = 0;
    update_caps();
    epoch_.fetch_add(1, std::memory_order_relaxed);  // see epoch_
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
    if (left_) return;
    closing_ = true;
    if (should_cancel) cancel_all(section);
    quieter_.wait(section.raw(), [this] { return runs_.empty(); });
    workers_wanted_ = 0;
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
        cancel(section, *run, made_failure<std::runtime_error>("team '" + name_ + "' was closed during the run"),
               Cause::outside);
    }
    // Others may have to be woken before their runs can end.
    section.unlock();
    section.lock();
}

void Scheduler::cancel_run(std::uint64_t run_id, std::exception_ptr failure) {
    Section section(*this);
    for (Context* run : runs_) {
        if (run->run_id != run_id) continue;
        if (!run->finished) cancel(section, *run, std::move(failure), Cause::outside);
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
    status.slots = slots_.used();
    status.spinning = spinners_;
    status.runs = static_cast<int>(runs_.size());
    status.pin_fault = pin_fault_;
    status.thread_fault = thread_fault_;
    status.waiting = static_cast<int>(std::count_if(runs_.begin(), runs_.end(), [](const Context* run) {
        return !run->finished && !run->serial && run->workers == 0 && run->blocking_ops == 0;
    }));
    return status;
}

}  // namespace treadle
