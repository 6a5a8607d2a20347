// Slots: the slots and permits of a team, who holds them, and for whom slots are reserved. native/README.md has the
// terms.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>

#include "treadle/policy.h"
#include "treadle/slot_audit.h"
#include "treadle/slot_numbers.h"
#include "treadle/worker.h"

namespace treadle {

struct Context;

// Slots keeps the account and decides nothing: policy.h does, by the snapshot that capacity() returns. All functions
// need the scheduler's lock, except those of resting holders and of the epoch.
class Slots {
public:
    // set_limits() sets how many slots and permits there are. What is in use beyond that stays so until it is released.
    void set_limits(int slots, int permits);
    // capacity() returns what there is and what is in use.
    Capacity capacity() const {
        Capacity now = capacity_;
        now.slots_used = numbers_.used();
        now.resting = resting_.load(std::memory_order_relaxed);
        return now;
    }

    // has_slot_for() returns whether the worker borrows a slot, or one is free.
    bool has_slot_for(const Worker& worker) const { return worker.borrows_slot || capacity().free_slots() > 0; }
    // take() gives the worker a slot, unless it borrows one or is a blocking worker, which needs none. Returns whether
    // one more is in use: then too many workers may spin.
    bool take(Worker& worker);
    // release() takes the slot back, if the worker holds one that it does not borrow.
    void release(Worker& worker);
    // add_spinning() counts workers that begin to spin, or if negative cease to. Nested callers are not counted.
    void add_spinning(int count) { capacity_.spinning += count; }

    // take_permit() gives an op of the run a permit. Returns whether it is the one that the op around the run lends.
    bool take_permit(Context& run);
    // release_permit() takes the permit back; `lent` is what take_permit() returned.
    void release_permit(Context& run, bool lent);
    // release_permits() takes back those of all ops of a run that is being abandoned.
    void release_permits(const Context& run);

    // return_loan() returns the slot that a nested caller borrows and, as soon as no worker uses it, the permit. Until
    // its run ends, the caller then competes for both like other callers. Does nothing if it borrows none. This is
    // allowed only if no step around it holds a lock (Request::is_part): else the caller could wait for a slot whose
    // holder waits for that lock.
    void return_loan(Worker& caller);
    // restore_loan() undoes return_loan() at the end of the caller's run; returns what take() does. If no slot or
    // permit is free, one too many is in use until the next part of the run around it begins, or another worker leaves
    // its op.
    bool restore_loan(Worker& caller);
    // restore_permit() has the op around a part hold the permit again, if the part has returned it.
    void restore_permit(Context& part);

    // detach() leaves a worker its slot while others may execute: it is in a host step of an abandoned run.
    // release_detached() takes the slot back when the step has ended.
    void detach(Worker& worker);
    void release_detached(Worker& worker);

    // begin_resting() and end_resting() count the holders of slots that only wait, see Resting. Detached workers are
    // not counted, but nested callers on their slots are until they end, which is soon. They need no lock, or that of
    // another team: that in which the holder waits. Whoever has called begin_resting() takes this team's lock next and
    // dispatches, so what the addition allows is not missed. A thread that sees a subtraction late lets one worker too
    // many execute one op.
    void begin_resting();
    void end_resting();

    // reserve() reserves a slot for `ns` for a caller whose run has just finished. drop_reservation() gives up the one
    // that ends first, if there is one.
    void reserve(std::int64_t ns);
    void drop_reservation();
    // has_reservations() returns whether slots have been reserved, if only for times that have passed.
    bool has_reservations() const { return !reservations_.empty(); }
    // reserved() returns how many slots are reserved now.
    int reserved();

    // epoch() changes when callers on the serial path must take the lock: limits have changed, a run starves, or a
    // worker stops resting. They load it without the lock as a hint and then take the lock, which orders the rest:
    // except in the last case, begin_epoch() is called under the lock.
    std::uint64_t epoch() const { return epoch_.load(std::memory_order_relaxed); }
    void begin_epoch() { epoch_.fetch_add(1, std::memory_order_relaxed); }

    AuditCounts& audit_counts() { return audit_counts_; }
    const AuditCounts& audit_counts() const { return audit_counts_; }

private:
    void return_permit(Context& run);

    SlotNumbers numbers_;
    Capacity capacity_;                      // without what numbers_ and resting_ count
    std::atomic<int> resting_{0};            // relaxed everywhere: see begin_resting()
    std::deque<std::int64_t> reservations_;  // ends of the times for which slots are reserved, earliest first
    std::atomic<std::uint64_t> epoch_{0};
    AuditCounts audit_counts_;
};

}  // namespace treadle
