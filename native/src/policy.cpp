#include "treadle/policy.h"

namespace treadle {

bool wants_other(const Help& help, const HandOver& cost) {
    if (help.goes_to_caller()) return false;
    return help.has_free_slot && (help.must || help.gain_ns >= cost.worth_calling_spinner_ns());
}

Helper choose_helper(const Help& help, const HandOver& cost) {
    if (help.goes_to_caller()) return Helper::caller;
    const bool pays_call = help.gain_ns >= cost.worth_calling_spinner_ns();
    const Idle other = wants_other(help, cost) ? help.other : Idle::none;
    if (other == Idle::spinning) return Helper::other;
    const bool has_caller = help.caller == Idle::parked && (help.has_free_slot || help.caller_borrows);
    if (has_caller || other == Idle::parked) {
        if (help.must || help.gain_ns >= cost.worth_waking_ns()) {
            if (has_caller) return Helper::caller;
            return help.must ? Helper::other : Helper::other_if_worth_waking;
        }
        return pays_call ? Helper::unpark : Helper::none;
    }
    if (!help.has_free_slot || !pays_call || !help.may_start) return Helper::none;
    // Ops that are each too short to pay for a thread may pay for one together.
    const double starting_ns = cost.worth_starting_ns();
    return help.gain_ns >= starting_ns || help.remaining_ns >= 2 * starting_ns ? Helper::start : Helper::none;
}

bool may_use_free_slot(double fitted_gain_ns, int free_slots, int reserved, bool in_host_steps) {
    return free_slots > 0 && (fitted_gain_ns >= kWorthReservedSlotNs || in_host_steps || free_slots > reserved);
}

std::int64_t turn_end_ns(std::int64_t began_ns, double fitted_cost_ns, Waiting behind) {
    if (behind == Waiting::nobody) return kEndlessNs;
    if (behind == Waiting::shorter_run) return began_ns + kTurnNs;
    return began_ns + std::max(kTurnNs, static_cast<std::int64_t>(std::min(kOverdue * fitted_cost_ns, 0x1p62)));
}

std::int64_t reservation_ns(double fitted_cost_ns) {
    return static_cast<std::int64_t>(std::clamp(kReservationPart * fitted_cost_ns, kMinReservationNs, kMaxReservationNs));
}

}  // namespace treadle
