// IdleWorkers: how the workers of a team wait for work, and how work is assigned to them. native/README.md has the
// states.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "treadle/policy.h"
#include "treadle/slots.h"
#include "treadle/worker.h"

namespace treadle {

class Section;

// IdleWorkers is the only one that changes Worker::state, except that WorkerLoop::wait_for_work() accepts. It keeps
// spinning workers and used slots together within the slots. All functions need the scheduler's lock, except those that
// say otherwise.
class IdleWorkers {
public:
    IdleWorkers(Slots& slots, std::chrono::nanoseconds spin_limit) : slots_(slots), spin_ns_(spin_limit.count()) {}

    // add() lists a worker that has released its slot. It spins if another thread may be runnable, else it parks. Its
    // thread calls WorkerLoop::wait_for_work() next; until it does, work may be assigned to it already.
    void add(Section& section, Worker& worker);
    // assign() gives an idle worker a slot and assigns it `op`, in which it is counted already.
    void assign(Section& section, Worker& worker, Op* op);
    // dismiss() ends the waiting of a caller whose run has finished, or of a thread that must end.
    void dismiss(Section& section, Worker& worker);
    // accept() returns whether the worker now executes its assignment; false if that was revoked. For the worker's own
    // thread, without the lock.
    static bool accept(Worker& worker);
    // revoke_one() revokes the assignment of the first worker that `matches` and has not accepted, as it has no CPU or
    // is still waking up. Returns that worker, which is idle then, or null if there is none. Its Worker::op is what it
    // had.
    template <typename Matches>
    Worker* revoke_one(const Matches& matches);

    // take_slot() gives a worker that executes a slot, and then calls park_surplus().
    void take_slot(Worker& worker);
    // park_surplus() requests surplus spinning workers to park: runnable threads never exceed the slots.
    void park_surplus();
    // park() parks a worker that spins, unless work has been assigned to it meanwhile. For its own thread, with the
    // lock. `in_vain`: runs are in progress, none of which has called it.
    void park(Worker& worker, bool in_vain);
    // unpark() lets up to `most` parked compute workers spin. Returns how many.
    int unpark(Section& section, int most);

    // compute_worker() returns an idle compute worker: one that spins, else the one that parked last; null if none is
    // idle.
    Worker* compute_worker() const;
    // blocking_worker() returns an idle blocking worker, or null.
    Worker* blocking_worker() const { return idle_blocking_.empty() ? nullptr : idle_blocking_.back(); }

    // set_spin() sets how long idle workers spin, those that spin now included. spin_limit() returns it. Both need no
    // lock.
    void set_spin(std::chrono::nanoseconds limit) { spin_ns_.store(limit.count(), std::memory_order_relaxed); }
    std::chrono::nanoseconds spin_limit() const {
        return std::chrono::nanoseconds(spin_ns_.load(std::memory_order_relaxed));
    }

    // note_helped() notes that a worker has left an op: if it was woken to help, it came in time.
    void note_helped(Worker& worker) {
        if (worker.was_woken) note_woken(worker, true);
    }
    // wakes() remembers whether workers that are woken come in time. wake_ups() returns how many were woken to help.
    WakeRecord& wakes() { return wakes_; }
    std::uint64_t wake_ups() const { return wake_ups_; }

private:
    friend class SlotAudit;

    bool may_spin(const Worker& worker, int slots_used) const;
    void leave(Worker& worker);
    bool revoke(Worker& worker);
    void set_state(Section& section, Worker& worker, State state);
    void prepare_to_wake(Worker& worker);
    void note_woken(Worker& worker, bool in_time);

    Slots& slots_;
    std::vector<Worker*> idle_;  // callers and compute workers; the last one became idle last
    std::vector<Worker*> idle_blocking_;
    std::vector<Worker*> assigned_;  // all workers in the state `assigned`, and some that have left it
    WakeRecord wakes_;
    std::uint64_t wake_ups_ = 0;
    std::atomic<std::int64_t> spin_ns_;  // relaxed everywhere: it orders nothing
};

template <typename Matches>
Worker* IdleWorkers::revoke_one(const Matches& matches) {
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

}  // namespace treadle
