// SlotAudit: in builds with -DTREADLE_CHAOS, checks at the end of each critical section that the slots hold what
// native/README.md says of them, and ends the process if they do not. Other builds check nothing.
#pragma once

#include <atomic>
#include <cstdint>

namespace treadle {

struct TeamState;

#ifdef TREADLE_CHAOS

// AuditCounts are the events that allow a team more runnable threads than it had. Belongs to a scheduler; its lock
// guards all but `resting_begun`.
struct AuditCounts {
    std::atomic<std::uint64_t> resting_begun{0};  // relaxed: incremented before what Slots::begin_resting() counts
    std::uint64_t loans_restored = 0;
    int engine_slots = 0;

    void begin_resting() { resting_begun.fetch_add(1, std::memory_order_relaxed); }
    void restore_loan() { ++loans_restored; }
    void add_engine_slots(int count) { engine_slots += count; }
};

// SlotAudit belongs to a critical section. Both functions need the scheduler's lock.
class SlotAudit {
public:
    void begin(const TeamState& team);
    void check(const TeamState& team) const;

private:
    int runnable_ = 0;
    int resting_ = 0;
    int engine_slots_ = 0;
    std::uint64_t resting_begun_ = 0;
    std::uint64_t loans_restored_ = 0;
};

#else

struct AuditCounts {
    void begin_resting() {}
    void restore_loan() {}
    void add_engine_slots(int) {}
};

class SlotAudit {
public:
    void begin(const TeamState&) {}
    void check(const TeamState&) const {}
};

#endif

}  // namespace treadle
