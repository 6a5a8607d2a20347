#include "treadle/slot_audit.h"

#ifdef TREADLE_CHAOS

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "treadle/context.h"
#include "treadle/team_state.h"

namespace treadle {

namespace {

void require(bool holds, const char* rule, const char* name) {
    if (holds) return;
    std::fprintf(stderr, "treadle: team '%s': %s\n", name, rule);
    std::abort();
}

}  // namespace

void SlotAudit::begin(const TeamState& team) {
    const AuditCounts& counts = team.slots.audit_counts();
    engine_slots_ = counts.engine_slots;
    loans_restored_ = counts.loans_restored;
    // In this order: what begins to rest between the two is counted twice rather than not at all.
    resting_begun_ = counts.resting_begun.load(std::memory_order_relaxed);
    const Capacity capacity = team.slots.capacity();
    resting_ = capacity.resting;
    runnable_ = capacity.slots_used + capacity.spinning;
}

// Checks that each slot in use belongs to one worker, that idle workers hold none, that threads of the team that are
// not idle and callers on the serial path hold one, that spinning workers are counted, and that the section has not let
// more threads run than the slots allow. Those that ran before may exceed a limit that has fallen, until they leave
// their ops; so may the worker to which a loan was restored.
void SlotAudit::check(const TeamState& team) const {
    const char* const name = team.name.c_str();
    const AuditCounts& counts = team.slots.audit_counts();
    const Capacity capacity = team.slots.capacity();
    if (engine_slots_ > 0 || counts.engine_slots > 0) return;  // another runtime decides which threads run
    int holders = 0;
    int spinners = 0;
    for (const auto* const threads : {&team.threads.callers_, &team.threads.compute_, &team.threads.detached_}) {
        for (const auto& worker : *threads) holders += worker->slot >= 0 ? 1 : 0;
    }
    for (const Worker* const worker : team.idle.idle_) {
        // Relaxed: written under the lock we hold.
        const bool spins = worker->state.load(std::memory_order_relaxed) == State::spinning;
        spinners += spins && !worker->borrows_slot ? 1 : 0;
        require(worker->slot < 0, "an idle worker holds a slot", name);
    }
    const auto waits_for_part = [&](const Worker& worker) {  // which has returned the slot, see Slots::return_loan()
        return std::ranges::any_of(team.threads.callers_, [&](const auto& caller) { return caller->lender == &worker; });
    };
    for (const auto& worker : team.threads.compute_) {
        require(worker->idle || worker->slot >= 0 || waits_for_part(*worker), "a thread without a slot is not idle", name);
    }
    for (const Context* const run : team.runs.all()) {
        if (!run->serial || run->caller->borrows_slot) continue;
        require(run->caller->slot >= 0 || waits_for_part(*run->caller), "a run on the serial path has no slot", name);
    }
    require(holders == capacity.slots_used, "the slots in use are not those that workers hold", name);
    require(spinners == capacity.spinning, "the spinning workers are not those that are counted", name);
    const auto rested = static_cast<int>(counts.resting_begun.load(std::memory_order_relaxed) - resting_begun_);
    const int most = std::max(capacity.slot_limit, capacity.detached + resting_ + rested + 1);
    const auto restored = static_cast<int>(counts.loans_restored - loans_restored_);
    require(holders + spinners <= std::max(most, runnable_ + restored), "more threads may run than there are slots", name);
}

}  // namespace treadle

#endif
