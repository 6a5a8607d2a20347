// Idle workers and assignments: how workers wait for work, and how work is assigned to them.
#include <algorithm>
#include <utility>

#include "treadle/chaos.h"
#include "treadle/scheduler.h"
#include "treadle/trace.h"

namespace treadle {

namespace {

// A spinning worker checks its watch and the spin limit this often.
constexpr std::chrono::milliseconds kLongestSpin{5};

}  // namespace

void Scheduler::take_slot(Worker& worker) {
    if (slots_.take(worker)) park_surplus_spinners();
}

bool Scheduler::may_spin(const Worker& worker, int slots_used) const {
    if (worker.role == Role::blocking) return false;
    if (worker.own_run != nullptr && worker.own_run->caller_waits) return false;
    if (spin_ns_.load(std::memory_order_relaxed) <= 0) return false;  // see spin_ns_
    return worker.borrows_slot || slots_.capacity().may_spin(slots_used);
}

void Scheduler::become_idle(Section& section, Worker& worker) {
    worker.idle = true;
    (worker.role == Role::blocking ? idle_blocking_ : idle_).push_back(&worker);
    const bool spins = may_spin(worker, slots_.capacity().slots_used);
    if (spins && !worker.borrows_slot) slots_.add_spinning(1);
    if (!spins) count_as_resting(worker);
    set_state(section, worker, spins ? State::spinning : State::parked);
    if (workers_.size() > worker_limit_) retire_surplus(section);
}

void Scheduler::leave_idle(Worker& worker) {
    if (!worker.idle) return;
    worker.idle = false;
    std::erase(worker.role == Role::blocking ? idle_blocking_ : idle_, &worker);
    const State state = worker.state.load(std::memory_order_relaxed);  // written under the lock we hold
    if (!worker.borrows_slot && state == State::spinning) slots_.add_spinning(-1);
    if (state == State::parked) count_as_running(worker);
}

// Counts a nested caller as resting. Must be called before it is parked; it calls dispatch_while_resting() then.
void Scheduler::count_as_resting(const Worker& worker) {
    if (worker.borrows_slot) worker.slot_holder->slots->begin_resting();
}

void Scheduler::count_as_running(const Worker& worker) {
    if (worker.borrows_slot) worker.slot_holder->slots->end_resting();
}

// Assigns the work that may begin because the calling thread's worker rests. Its lock is that of the slot's team.
void Scheduler::dispatch_while_resting() {
    if (!is_here()) return;
    Section section(*this);
    dispatch(section);
}

void Scheduler::begin_resting(Worker& holder) {
    if (!is_here()) return;
    Section section(*this);
    if (holder.slot < 0 || holder.detached) return;
    holder.is_resting = true;
    slots_.begin_resting();
    dispatch(section);
}

void Scheduler::end_resting(Worker& holder) {
    if (!is_here()) return;
    const Section section(*this);
    if (std::exchange(holder.is_resting, false)) slots_.end_resting();
}

Resting::Resting() : slot_holder_(current_worker() == nullptr ? nullptr : current_worker()->slot_holder) {
    if (slot_holder_ != nullptr) slot_holder_->scheduler->begin_resting(*slot_holder_);
}

Resting::~Resting() {
    if (slot_holder_ != nullptr) slot_holder_->scheduler->end_resting(*slot_holder_);
}

void Scheduler::assign(Section& section, Worker& worker, Op* op) {
    leave_idle(worker);
    take_slot(worker);
    worker.op = op;
    // Relaxed: written under the lock we hold.
    const bool is_parked = worker.state.load(std::memory_order_relaxed) == State::parked;
    if (is_parked && worker.role == Role::compute && op->run->workers > 1) prepare_to_wake(worker);
    set_state(section, worker, State::assigned);
    if (worker.is_listed || worker.role == Role::blocking) return;
    worker.is_listed = true;
    assigned_.push_back(&worker);
}

// Revokes an assignment that its worker has not accepted, as it has no CPU or is still waking up. Returns false if the
// worker has accepted meanwhile. The worker will run in any case, so it spins afterwards, and its next assignment costs
// no wake-up. It is listed as the worker that became idle first, so others are preferred.
bool Scheduler::revoke(Worker& worker) {
    const int without_it = slots_.capacity().slots_used - (worker.borrows_slot ? 0 : 1);
    const bool spins = may_spin(worker, without_it);
    if (!spins) count_as_resting(worker);
    chaos_point();
    State expected = State::assigned;
    // Relaxed, partner: accept(). The worker has written nothing, and it reads its next assignment by the acquire
    // there.
    if (!worker.state.compare_exchange_strong(expected, spins ? State::spinning : State::parked,
                                              std::memory_order_relaxed)) {
        if (!spins) count_as_running(worker);
        return false;
    }
    slots_.release(worker);
    if (worker.was_woken) note_woken(worker, false);
    worker.idle = true;
    idle_.insert(idle_.begin(), &worker);
    if (spins && !worker.borrows_slot) slots_.add_spinning(1);
    return true;
}

// Returns whether the worker now executes its assignment; false if that was revoked.
bool Scheduler::accept(Worker& worker) {
    chaos_point();
    State expected = State::assigned;
    // Acquire, partner: the exchange in set_state(). The worker reads Worker::op after it.
    return worker.state.compare_exchange_strong(expected, State::working, std::memory_order_acquire,
                                                std::memory_order_relaxed);
}

void Scheduler::dismiss(Section& section, Worker& worker) {
    leave_idle(worker);
    set_state(section, worker, State::dismissed);
}

void Scheduler::set_state(Section& section, Worker& worker, State state) {
    chaos_point();
    // Release, partners: accept(), after which the worker reads Worker::op, and wait_for_work() for a dismissed worker.
    const State before = worker.state.exchange(state, std::memory_order_release);
    if (before == State::parked && state != State::parked) section.wake_later(worker);
}

// Prepares to wake a parked compute worker that is to help the calling thread. Systems tend to let a woken thread run on
// the CPU of the thread that woke it, which then waits for its help (a virtual CPU that sleeps does not count as idle).
// So the worker is kept off that CPU until it is awake.
void Scheduler::prepare_to_wake(Worker& worker) {
    ++wake_ups_;
    worker.was_woken = true;
    worker.kept_off.begin(worker.thread);
}

// Notes whether a worker that was woken has helped; if not, other processes have the CPUs, or it was woken in vain.
void Scheduler::note_woken(Worker& worker, bool in_time) {
    worker.was_woken = false;
    wake_record_.note(in_time);
}

// Requests surplus spinning workers to park: runnable threads, spinning ones included, never exceed the slots.
void Scheduler::park_surplus_spinners() {
    const auto are_too_many = [this] {
        const Capacity capacity = slots_.capacity();
        return capacity.spinning > 0 && capacity.spinning > capacity.free_slots();
    };
    for (std::size_t i = 0; i < idle_.size() && are_too_many(); ++i) {
        Worker& worker = *idle_[i];
        // Both relaxed: read and written under the lock; the spinning worker takes it in park() before it acts on this.
        if (worker.borrows_slot || worker.state.load(std::memory_order_relaxed) != State::spinning) continue;
        worker.state.store(State::park_requested, std::memory_order_relaxed);
        slots_.add_spinning(-1);
    }
}

// Blocks the idle worker's thread until it has accepted an op or has been dismissed. Called without the lock.
void Scheduler::wait_for_work(Worker& worker) {
    auto began = Clock::now();
    for (;;) {
        // Acquire, partner: the exchange in set_state(), for a dismissed worker, and for `kept_off`, begun before it.
        const State state = worker.state.load(std::memory_order_acquire);
        if (worker.kept_off.is_on()) {
            // The thread is awake. Before any step: threads that a host step starts have the CPUs of this one.
            const Section section(*this);
            worker.kept_off.end(pthread_self());
        }
        switch (state) {
            case State::spinning:
                spin_or_park(worker, began);
                break;
            case State::park_requested:
                park(worker);
                break;
            case State::parked:
                if (worker.borrows_slot) worker.slot_holder->scheduler->dispatch_while_resting();
                sleep_while_parked(
                    worker, worker.watch.time_to_check(worker.watch.is_on() ? Clock::now() : Clock::time_point()));
                began = Clock::now();
                break;
            case State::assigned:
                if (accept(worker)) return;
                continue;
            case State::working:
            case State::dismissed:
                return;
        }
        if (worker.watch.is_on()) check_watch_while_waiting(worker);
    }
}

void Scheduler::spin_or_park(Worker& worker, Clock::time_point began) {
    // Relaxed, partner: set_spin(). Loaded in every round, so that a change reaches spinning workers.
    const auto limit = worker.spin_record.limit(std::chrono::nanoseconds(spin_ns_.load(std::memory_order_relaxed)));
    const auto now = Clock::now();
    const auto left = limit - (now - began);
    if (left <= left.zero()) {
        park(worker);
    } else if (spin(worker, now + std::min<std::chrono::nanoseconds>(left, kLongestSpin))) {
        worker.spin_record.note_answered();
    } else if (left <= kLongestSpin) {
        park(worker);
    }
}

void Scheduler::park(Worker& worker) {
    const Section section(*this);
    switch (worker.state.load(std::memory_order_relaxed)) {  // written under the lock we hold
        case State::spinning:
            if (!worker.borrows_slot) slots_.add_spinning(-1);
            if (!runs_.all().empty()) worker.spin_record.note_futile();
            [[fallthrough]];
        case State::park_requested:
            if (worker.was_woken) note_woken(worker, false);
            count_as_resting(worker);
            worker.state.store(State::parked, std::memory_order_relaxed);
            break;
        default:
            break;  // assigned or dismissed meanwhile
    }
}

void Scheduler::check_watch_while_waiting(Worker& worker) {
    try {
        worker.watch.check(Clock::now());
    } catch (...) {
        Section section(*this);
        cancel(section, *worker.own_run, std::current_exception(), Cause::external);
    }
}

}  // namespace treadle
