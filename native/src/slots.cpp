#include "treadle/slots.h"

#include <algorithm>
#include <utility>

#include "treadle/context.h"
#include "treadle/trace.h"

namespace treadle {

void Slots::set_limits(int slots, int permits) {
    capacity_.slot_limit = slots;
    capacity_.permit_limit = permits;
}

bool Slots::take(Worker& worker) {
    if (worker.borrows_slot) return false;
    if (worker.role == Role::blocking) {
        worker.slot = -1 - worker.index;
        return false;
    }
    worker.slot = numbers_.take(worker.index);
    return true;
}

void Slots::release(Worker& worker) {
    if (worker.borrows_slot || worker.slot < 0) return;
    numbers_.release(worker.slot);
    worker.slot = -1;
}

bool Slots::take_permit(Context& run) {
    const bool lent = std::exchange(run.lent_permit_free, false);
    if (!lent) ++capacity_.permits_used;
    return lent;
}

void Slots::release_permit(Context& run, bool lent) {
    if (!lent) {
        --capacity_.permits_used;
        return;
    }
    run.lent_permit_free = true;
    if (run.caller->lender != nullptr) return_permit(run);
}

void Slots::release_permits(const Context& run) {
    const bool lent_in_use = run.caller->borrows_slot && !run.lent_permit_free;
    capacity_.permits_used -= run.ops - (lent_in_use ? 1 : 0);
}

void Slots::return_loan(Worker& caller) {
    if (!caller.borrows_slot) return;
    caller.lender = caller.slot_holder;
    release(*caller.lender);
    caller.borrows_slot = false;
    caller.slot_holder = &caller;
    return_permit(*caller.own_run);
}

void Slots::return_permit(Context& run) {
    if (!std::exchange(run.lent_permit_free, false)) return;
    run.lent_permit_returned = true;
    --capacity_.permits_used;
}

bool Slots::restore_loan(Worker& caller) {
    bool taken = false;
    if (caller.slot < 0) {
        audit_counts_.restore_loan();
        taken = take(caller);
    }
    caller.lender->slot = std::exchange(caller.slot, -1);
    if (caller.lender->detached) ++capacity_.detached;
    restore_permit(*caller.own_run);
    return taken;
}

void Slots::restore_permit(Context& part) {
    if (std::exchange(part.lent_permit_returned, false)) ++capacity_.permits_used;
}

void Slots::detach(Worker& worker) {
    if (worker.slot >= 0) ++capacity_.detached;
    if (std::exchange(worker.is_resting, false)) end_resting();
}

void Slots::release_detached(Worker& worker) {
    if (worker.slot >= 0) --capacity_.detached;
    release(worker);
    worker.slot = -1;
}

void Slots::begin_resting() {
    audit_counts_.begin_resting();
    resting_.fetch_add(1, std::memory_order_relaxed);
}

void Slots::end_resting() {
    resting_.fetch_sub(1, std::memory_order_relaxed);
    begin_epoch();
}

void Slots::reserve(std::int64_t ns) {
    reserved();
    const std::int64_t until = monotonic_ns() + ns;
    reservations_.insert(std::upper_bound(reservations_.begin(), reservations_.end(), until), until);
}

void Slots::drop_reservation() {
    if (!reservations_.empty()) reservations_.pop_front();
}

int Slots::reserved() {
    if (reservations_.empty()) return 0;
    const std::int64_t now = monotonic_ns();
    while (!reservations_.empty() && reservations_.front() <= now) reservations_.pop_front();
    return static_cast<int>(reservations_.size());
}

}  // namespace treadle
