// Policy: which work goes to which worker, as functions of small records. They know neither threads nor locks: the
// scheduler fills the records under its lock and acts on the answers. native/README.md has the rules.
#pragma once

#include <algorithm>
#include <cstdint>

#include "treadle/cost.h"
#include "treadle/run_limits.h"

namespace treadle {

// Capacity is what a team may execute at once, and what it does.
struct Capacity {
    int slot_limit = 1;    // the largest limit of the team and of the runs in progress
    int permit_limit = 1;  // the same of inter_op alone
    int slots_used = 0;
    int permits_used = 0;  // by ops in progress, without those on lent permits
    int detached = 0;      // slots that detached workers hold
    int resting = 0;       // how many holders of slots rest
    int spinning = 0;      // workers, without nested callers

    // max_slots() returns how many slots may be in use: the limit, or one more than are held if all holders rest or are
    // detached.
    int max_slots() const { return std::max(slot_limit, detached + resting + 1); }
    int free_slots() const { return max_slots() - slots_used; }
    // working() returns how many workers hold slots and neither rest nor are detached.
    int working() const { return slots_used - detached - resting; }
    // has_permit() says whether another op may begin beside so many working ones. If there are none, the holders of
    // the permits wait for other runs, so there is one permit more.
    bool has_permit(int others_working) const { return permits_used < permit_limit || others_working <= 0; }
    // may_spin() says whether one more worker may spin where `used` slots are taken.
    bool may_spin(int used) const { return used + spinning < max_slots(); }
    // missing_workers() returns how many more workers a run with these limits could use on slots that are neither in use
    // nor among the `reserved` ones, without spinning workers.
    int missing_workers(Limits limits, int reserved) const {
        return std::min(std::max(limits.intra_op, limits.inter_op), max_slots()) - slots_used - reserved - spinning;
    }
    // is_crowded() says whether there are more callers than slots, counting those for whom one is reserved. A team of
    // one slot has no compute workers, and so no crowd.
    bool is_crowded(int runs, int reserved) const {
        return slot_limit > 1 && slots_used < max_slots() && runs + reserved > slot_limit;
    }
};

// Idle says how a worker waits, if at all.
enum class Idle { none, parked, spinning };

// Help is work that an idle worker may do for a run.
struct Help {
    bool must = false;            // the run has no worker: one is found at any cost
    double gain_ns = 0;           // what another worker saves
    double remaining_ns = 0;      // of the run, that other workers could take
    Idle caller = Idle::none;     // the run's caller; none if it does not wait or has no slot
    bool caller_borrows = false;  // it needs no slot
    Idle other = Idle::none;      // the best idle compute worker
    bool has_free_slot = false;
    bool may_start = false;       // a thread would find a slot

    // goes_to_caller() says whether it is the caller's whatever else is idle.
    bool goes_to_caller() const { return caller != Idle::none && (must || caller == Idle::spinning); }
};

// Helper says who does it.
enum class Helper {
    none,
    caller,
    other,
    other_if_worth_waking,  // unless the last woken workers came too late, see WakeRecord
    unpark,                 // nobody now, but workers are woken ahead of the run's next ops
    start,                  // a new thread
};

// wants_other() says whether choose_helper() looks at Help::other, which takes time to find.
bool wants_other(const Help& help, const HandOver& cost);
// choose_helper() prefers the run's caller, then a spinning worker, then a parked one, then a new thread, as far as the
// gain pays for each.
Helper choose_helper(const Help& help, const HandOver& cost);

// may_use_free_slot() says whether a worker that would help a run which has a worker may use one of `free_slots`. It may
// not use a slot that is reserved for a returning caller, unless helping saves much or the run is in host steps: else a
// worker of the run will soon ask again, when its next short kernel ends.
bool may_use_free_slot(double fitted_gain_ns, int free_slots, int reserved, bool in_host_steps);

// Waiting is what waits behind a run that is served.
enum class Waiting { nobody, runs, shorter_run };

// turn_end_ns() returns when the turn of a run ends that began at `began_ns` and should take `fitted_cost_ns` alone: soon if a run
// with less work left waits; if others do, when it is overdue, because with turns they would end no sooner, and this run
// later; kEndlessNs if none does.
std::int64_t turn_end_ns(std::int64_t began_ns, double fitted_cost_ns, Waiting behind);

// reservation_ns() returns how long a slot is reserved for the caller of a run of `fitted_cost_ns` after its
// end.
std::int64_t reservation_ns(double fitted_cost_ns);

// WakeRecord remembers whether workers that were woken to help came in time. If not, other processes have the CPUs.
class WakeRecord {
public:
    // note() tells whether a woken worker has helped.
    void note(bool in_time) {
        reluctance_ = in_time ? std::max(reluctance_ / 2, 1.0) : std::min(reluctance_ * 2, kMostReluctance);
    }
    // is_worth() says whether to wake a worker for help that saves `saved_ns` now. After workers that came too late it must
    // save more: what it would have saved since the last one was woken counts, too.
    bool is_worth(double saved_ns, const HandOver& cost) {
        unhelped_ns_ += saved_ns;
        if (reluctance_ > 1 && unhelped_ns_ < least_ns(cost)) return false;
        unhelped_ns_ = 0;
        return true;
    }
    // least_ns() returns what help must save.
    double least_ns(const HandOver& cost) const { return reluctance_ * cost.worth_waking_ns(); }

private:
    double reluctance_ = 1;
    double unhelped_ns_ = 0;
};

// SpinRecord counts a worker's spins that ran out, in a row, while runs were in progress. If another process takes one of
// the CPUs, two threads of a team share the other, and a spinning worker keeps the thread that it waits for from running.
// So after such a spin the next ones are short, except one in so many, until a spin is answered.
class SpinRecord {
public:
    void note_answered() { futile_ = 0; }
    void note_futile() { ++futile_; }
    // limit() returns how long to spin where `most` is allowed.
    template <typename Duration>
    Duration limit(Duration most) const {
        return futile_ % kSpinsPerProbe == 0 ? most : most / kShortSpin;
    }

private:
    static constexpr unsigned kShortSpin = 16;     // docs/measurements/wake-ups.md
    static constexpr unsigned kSpinsPerProbe = 8;  // likewise

    unsigned futile_ = 0;
};

}  // namespace treadle
