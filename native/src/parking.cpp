// Slots, idle workers and assignments: how workers wait for work and are given it.
#include <algorithm>
#include <utility>

#include "treadle/chaos.h"
#include "treadle/cost.h"
#include "treadle/scheduler.h"
#include "treadle/trace.h"

namespace treadle {

namespace {

// A spinning worker looks this often at what else may concern it.
constexpr std::chrono::milliseconds kLongestSpin{5};

// Where another process takes one of the CPUs, two threads of a team share the other, and who spins keeps the very
// thread from running that it waits for. So after a spin that ran out during a run the next ones are short, until one
// of them, or the full one that is tried now and then, is answered.
constexpr unsigned kFutileSpinFraction = 16;
constexpr unsigned kFutileSpinsPerProbe = 8;

}  // namespace

bool Scheduler::has_slot_for(const Worker& worker) const { return worker.borrows_slot || slots_.used() < max_slots(); }

// Keeps one this long for a caller whose run has just finished.
void Scheduler::reserve_slot(std::int64_t ns) {
    reserved_slots();
    const std::int64_t until = monotonic_ns() + ns;
    reservations_.insert(std::upper_bound(reservations_.begin(), reservations_.end(), until), until);
}

// How many are kept.
int Scheduler::reserved_slots() {
    if (reservations_.empty()) return 0;
    const std::int64_t now = monotonic_ns();
    while (!reservations_.empty() && reservations_.front() <= now) reservations_.pop_front();
    return static_cast<int>(reservations_.size());
}

void Scheduler::take_slot(Worker& worker) {
    if (worker.borrows_slot) return;
    if (worker.role == Role::blocking) {
        worker.slot = -1 - worker.index;
        return;
    }
    worker.slot = slots_.take(worker.index);
    park_surplus_spinners();
}

void Scheduler::release_slot(Worker& worker) {
    if (worker.borrows_slot || worker.slot < 0) return;
    slots_.release(worker.slot);
    worker.slot = -1;
}

bool Scheduler::may_spin(const Worker& worker, int slots_used) const {
    if (worker.role == Role::blocking) return false;
    if (spin_ns_.load(std::memory_order_relaxed) <= 0) return false;  // a setting
    return worker.borrows_slot || slots_used + spinners_ < max_slots();
}

void Scheduler::become_idle(Section& section, Worker& worker) {
    worker.idle = true;
    (worker.role == Role::blocking ? idle_blocking_ : idle_).push_back(&worker);
    const bool spins = may_spin(worker, slots_.used());
    if (spins && !worker.borrows_slot) ++spinners_;
    if (!spins) count_as_resting(worker);
    set_state(section, worker, spins ? State::spinning : State::parked);
    if (workers_.size() > worker_limit_) retire_surplus(section);
}

void Scheduler::leave_idle(Worker& worker) {
    if (!worker.idle) return;
    worker.idle = false;
    std::erase(worker.role == Role::blocking ? idle_blocking_ : idle_, &worker);
    const State state = worker.state.load(std::memory_order_relaxed);  // written under the lock we hold
    if (!worker.borrows_slot && state == State::spinning) --spinners_;
    if (state == State::parked) count_as_running(worker);
}

// A guest that is parked rests. To be called before it is, as it goes to dispatch_while_resting() then.
void Scheduler::count_as_resting(const Worker& worker) {
    if (worker.borrows_slot) worker.slot_holder->scheduler->resting_.fetch_add(1, std::memory_order_relaxed);  // see resting_
}

void Scheduler::count_as_running(const Worker& worker) {
    if (!worker.borrows_slot) return;
    Scheduler& its = *worker.slot_holder->scheduler;
    its.resting_.fetch_sub(1, std::memory_order_relaxed);  // see resting_
    its.epoch_.fetch_add(1, std::memory_order_relaxed);    // see epoch_
}

// For who has begun to rest: what may go on because of that does.
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
    resting_.fetch_add(1, std::memory_order_relaxed);  // see resting_
    dispatch(section);
}

void Scheduler::end_resting(Worker& holder) {
    if (!is_here()) return;
    const Section section(*this);
    if (!std::exchange(holder.is_resting, false)) return;
    resting_.fetch_sub(1, std::memory_order_relaxed);  // see resting_
    epoch_.fetch_add(1, std::memory_order_relaxed);    // see epoch_
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
    set_state(section, worker, State::assigned);
    if (worker.is_listed || worker.role == Role::blocking) return;
    worker.is_listed = true;
    assigned_.push_back(&worker);
}

// Takes back what a worker was given and has not come to yet: it has no CPU, or is still waking up. False if it has
// come meanwhile. As it will run in any case, it spins then, so that the next gift costs no wake-up; but others are
// preferred.
bool Scheduler::revoke(Worker& worker) {
    const int without_it = slots_.used() - (worker.borrows_slot ? 0 : 1);
    const bool spins = may_spin(worker, without_it);
    if (!spins) count_as_resting(worker);
    chaos_point();
    State given = State::assigned;
    // Relaxed: the worker has written nothing, and reads what the next gift holds by its own exchange in accept().
    if (!worker.state.compare_exchange_strong(given, spins ? State::spinning : State::parked,
                                              std::memory_order_relaxed)) {
        if (!spins) count_as_running(worker);
        return false;
    }
    release_slot(worker);
    worker.idle = true;
    idle_.insert(idle_.begin(), &worker);
    if (spins && !worker.borrows_slot) ++spinners_;
    return true;
}

// Whether the worker has its gift; false if that has been taken back.
bool Scheduler::accept(Worker& worker) {
    chaos_point();
    State given = State::assigned;
    // Acquire: pairs with the exchange in set_state(); Worker::op is read after it.
    return worker.state.compare_exchange_strong(given, State::working, std::memory_order_acquire,
                                                std::memory_order_relaxed);
}

void Scheduler::dismiss(Section& section, Worker& worker) {
    leave_idle(worker);
    set_state(section, worker, State::dismissed);
}

void Scheduler::set_state(Section& section, Worker& worker, State state) {
    chaos_point();
    // Release: pairs with accept(), which lets the worker read Worker::op, and with wait_for_work() for who is dismissed.
    const State before = worker.state.exchange(state, std::memory_order_release);
    if (before == State::parked && state != State::parked) section.wake_later(worker);
}

// Runnable threads, spinning ones included, are never more than the places.
void Scheduler::park_surplus_spinners() {
    for (std::size_t i = 0; i < idle_.size() && spinners_ > 0 && slots_.used() + spinners_ > max_slots(); ++i) {
        Worker& worker = *idle_[i];
        // Both relaxed: read and written under the lock; the spinning worker takes it before it believes this.
        if (worker.borrows_slot || worker.state.load(std::memory_order_relaxed) != State::spinning) continue;
        worker.state.store(State::park_requested, std::memory_order_relaxed);
        --spinners_;
    }
}

// Returns once the worker has taken up an op or has been dismissed. Called without the lock by idle workers.
void Scheduler::wait_for_work(Worker& worker) {
    auto began = Clock::now();
    for (;;) {
        // Acquire: pairs with the exchange in set_state(), for who is dismissed.
        switch (worker.state.load(std::memory_order_acquire)) {
            case State::spinning:
                spin_or_park(worker, began);
                break;
            case State::park_requested:
                park(worker);
                break;
            case State::parked:
                if (worker.borrows_slot) worker.slot_holder->scheduler->dispatch_while_resting();
                sleep_while_parked(worker, worker.watch.time_to_check(worker.watch.is_on() ? Clock::now() : Clock::time_point()));
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
    // Relaxed: a setting. It is looked at again and again, so that a change reaches those who spin.
    std::chrono::nanoseconds limit(spin_ns_.load(std::memory_order_relaxed));
    if (worker.futile_spins % kFutileSpinsPerProbe != 0) limit /= kFutileSpinFraction;
    const auto now = Clock::now();
    const auto left = limit - (now - began);
    if (left <= left.zero()) {
        park(worker);
    } else if (spin(worker, now + std::min<std::chrono::nanoseconds>(left, kLongestSpin))) {
        worker.futile_spins = 0;
    } else if (left <= kLongestSpin) {
        park(worker);
    }
}

void Scheduler::park(Worker& worker) {
    const Section section(*this);
    switch (worker.state.load(std::memory_order_relaxed)) {  // written under the lock we hold
        case State::spinning:
            if (!worker.borrows_slot) --spinners_;
            if (!runs_.empty()) ++worker.futile_spins;
            [[fallthrough]];
        case State::park_requested:
            count_as_resting(worker);
            worker.state.store(State::parked, std::memory_order_relaxed);
            break;
        default:
            break;
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
