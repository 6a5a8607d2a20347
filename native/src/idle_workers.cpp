#include "treadle/idle_workers.h"

#include "treadle/chaos.h"
#include "treadle/context.h"
#include "treadle/section.h"

namespace treadle {

namespace {

// Counts a nested caller as resting. Must be called before it is parked; it calls Scheduler::dispatch_while_resting()
// then.
void count_as_resting(const Worker& worker) {
    if (worker.borrows_slot) worker.slot_holder->slots->begin_resting();
}

void count_as_running(const Worker& worker) {
    if (worker.borrows_slot) worker.slot_holder->slots->end_resting();
}

}  // namespace

bool IdleWorkers::may_spin(const Worker& worker, int slots_used) const {
    if (worker.role == Role::blocking) return false;
    if (worker.own_run != nullptr && worker.own_run->caller_waits) return false;
    if (spin_limit() <= spin_limit().zero()) return false;
    return worker.borrows_slot || slots_.capacity().may_spin(slots_used);
}

void IdleWorkers::add(Section& section, Worker& worker) {
    worker.idle = true;
    (worker.role == Role::blocking ? idle_blocking_ : idle_).push_back(&worker);
    const bool spins = may_spin(worker, slots_.capacity().slots_used);
    if (spins && !worker.borrows_slot) slots_.add_spinning(1);
    if (!spins) count_as_resting(worker);
    set_state(section, worker, spins ? State::spinning : State::parked);
}

void IdleWorkers::leave(Worker& worker) {
    if (!worker.idle) return;
    worker.idle = false;
    std::erase(worker.role == Role::blocking ? idle_blocking_ : idle_, &worker);
    const State state = worker.state.load(std::memory_order_relaxed);  // written under the lock we hold
    if (!worker.borrows_slot && state == State::spinning) slots_.add_spinning(-1);
    if (state == State::parked) count_as_running(worker);
}

void IdleWorkers::assign(Section& section, Worker& worker, Op* op) {
    leave(worker);
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

// Returns false if the worker has accepted meanwhile. It will run in any case, so it spins afterwards, and its next
// assignment costs no wake-up. It is listed as the worker that became idle first, so others are preferred.
bool IdleWorkers::revoke(Worker& worker) {
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

bool IdleWorkers::accept(Worker& worker) {
    chaos_point();
    State expected = State::assigned;
    // Acquire, partner: the exchange in set_state(). The worker reads Worker::op after it.
    return worker.state.compare_exchange_strong(expected, State::working, std::memory_order_acquire,
                                                std::memory_order_relaxed);
}

void IdleWorkers::dismiss(Section& section, Worker& worker) {
    leave(worker);
    set_state(section, worker, State::dismissed);
}

void IdleWorkers::set_state(Section& section, Worker& worker, State state) {
    chaos_point();
    // Release, partners: accept(), after which the worker reads Worker::op, and WorkerLoop::wait_for_work() for a
    // dismissed worker.
    const State before = worker.state.exchange(state, std::memory_order_release);
    if (before == State::parked && state != State::parked) section.wake_later(worker);
}

void IdleWorkers::take_slot(Worker& worker) {
    if (slots_.take(worker)) park_surplus();
}

void IdleWorkers::park_surplus() {
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

void IdleWorkers::park(Worker& worker, bool in_vain) {
    switch (worker.state.load(std::memory_order_relaxed)) {  // written under the lock we hold
        case State::spinning:
            if (!worker.borrows_slot) slots_.add_spinning(-1);
            if (in_vain) worker.spin_record.note_futile();
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

int IdleWorkers::unpark(Section& section, int most) {
    int count = 0;
    for (auto it = idle_.rbegin(); it != idle_.rend() && count < most; ++it) {
        if ((*it)->role != Role::compute) continue;
        // Relaxed: written under the lock we hold.
        if ((*it)->state.load(std::memory_order_relaxed) != State::parked) continue;
        slots_.add_spinning(1);
        ++count;
        prepare_to_wake(**it);
        set_state(section, **it, State::spinning);
    }
    return count;
}

Worker* IdleWorkers::compute_worker() const {
    Worker* parked = nullptr;
    for (auto it = idle_.rbegin(); it != idle_.rend(); ++it) {
        if ((*it)->role != Role::compute) continue;
        if (is_spinning(**it)) return *it;
        if (parked == nullptr) parked = *it;
    }
    return parked;
}

// Prepares to wake a parked compute worker that is to help the calling thread. Systems tend to let a woken thread run
// on the CPU of the thread that woke it, which then waits for its help (a virtual CPU that sleeps does not count as
// idle). So the worker is kept off that CPU until it is awake.
void IdleWorkers::prepare_to_wake(Worker& worker) {
    ++wake_ups_;
    worker.was_woken = true;
    worker.kept_off.begin(worker.thread);
}

// Notes whether a worker that was woken has helped; if not, other processes have the CPUs, or it was woken in vain.
void IdleWorkers::note_woken(Worker& worker, bool in_time) {
    worker.was_woken = false;
    wakes_.note(in_time);
}

}  // namespace treadle
