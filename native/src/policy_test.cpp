#include "treadle/policy.h"

#include "treadle/check.h"

namespace treadle {

namespace {

constexpr HandOver kCost{1'000, 20'000, 100};

// An op that pays for everything, of a run that has a worker.
Help long_op() {
    Help help;
    help.gain_ns = 1e9;
    help.remaining_ns = 1e9;
    help.has_free_slot = help.may_start = true;
    return help;
}

}  // namespace

TREADLE_TEST(what_pays_follows_the_machine) {
    const HandOver twice{2 * kCost.wake_ns, 2 * kCost.unpark_ns, 2 * kCost.line_ns};
    CHECK_EQUAL(2 * kCost.worth_sharing_ns(), twice.worth_sharing_ns());
    CHECK_EQUAL(2 * kCost.step_elsewhere_ns(), twice.step_elsewhere_ns());
    CHECK_EQUAL(2 * kCost.worth_calling_spinner_ns(), twice.worth_calling_spinner_ns());
    CHECK_EQUAL(2 * kCost.worth_waking_ns(), twice.worth_waking_ns());
    CHECK_EQUAL(2 * kCost.worth_starting_ns(), twice.worth_starting_ns());
    CHECK_EQUAL(2 * kCost.worth_awaiting_ns(), twice.worth_awaiting_ns());
    CHECK_EQUAL(kCost.fitted_ns(5e6), twice.fitted_ns(1e7));
    CHECK_EQUAL(5e6, HandOver().fitted_ns(5e6));
}

TREADLE_TEST(work_goes_to_the_caller_that_spins_or_must_do_it) {
    CHECK(!(Help{.must = true, .caller = Idle::none}.goes_to_caller()));
    CHECK((Help{.must = true, .caller = Idle::parked}.goes_to_caller()));
    CHECK((Help{.must = false, .caller = Idle::spinning}.goes_to_caller()));
    CHECK(!(Help{.must = false, .caller = Idle::parked}.goes_to_caller()));
}

TREADLE_TEST(resting_and_detached_holders_leave_a_slot_for_somebody) {
    Capacity capacity{.slot_limit = 2, .permit_limit = 2, .slots_used = 2};
    CHECK_EQUAL(0, capacity.free_slots());
    capacity.resting = 1;
    CHECK_EQUAL(0, capacity.free_slots());
    CHECK_EQUAL(1, capacity.working());
    capacity.detached = 1;
    CHECK_EQUAL(1, capacity.free_slots());
    CHECK_EQUAL(0, capacity.working());
}

TREADLE_TEST(a_run_gets_a_permit_where_nobody_works) {
    const Capacity capacity{.slot_limit = 4, .permit_limit = 2, .slots_used = 2, .permits_used = 2};
    CHECK(!capacity.has_permit(1));
    CHECK(capacity.has_permit(0));
    CHECK((Capacity{.permit_limit = 2, .permits_used = 1}.has_permit(3)));
}

TREADLE_TEST(spinning_workers_and_used_slots_do_not_exceed_the_slots) {
    const Capacity capacity{.slot_limit = 4, .slots_used = 2, .spinning = 1};
    CHECK(capacity.may_spin(2));
    CHECK(!capacity.may_spin(3));
    CHECK_EQUAL(1, capacity.missing_workers({4, 1}, 0));
    CHECK_EQUAL(0, capacity.missing_workers({4, 1}, 1));
    CHECK_EQUAL(-1, capacity.missing_workers({2, 2}, 0));
    CHECK_EQUAL(1, capacity.missing_workers({9, 1}, 0));
}

TREADLE_TEST(a_crowd_is_more_callers_than_slots_and_a_free_slot) {
    Capacity capacity{.slot_limit = 2, .slots_used = 1};
    CHECK(!capacity.is_crowded(2, 0));
    CHECK(capacity.is_crowded(3, 0));
    CHECK(capacity.is_crowded(2, 1));
    capacity.slots_used = 2;
    CHECK(!capacity.is_crowded(3, 0));
    CHECK(!(Capacity{.slot_limit = 1}.is_crowded(3, 0)));
}

TREADLE_TEST(a_run_without_a_worker_gets_its_caller_first_whatever_it_gains) {
    Help help;
    help.must = true;
    help.caller = Idle::parked;
    help.other = Idle::spinning;
    help.has_free_slot = true;
    CHECK(!wants_other(help, kCost));
    CHECK(choose_helper(help, kCost) == Helper::caller);
    help.caller = Idle::none;
    CHECK(wants_other(help, kCost));
    CHECK(choose_helper(help, kCost) == Helper::other);
    help.other = Idle::parked;
    CHECK(choose_helper(help, kCost) == Helper::other);
    help.has_free_slot = false;
    CHECK(choose_helper(help, kCost) == Helper::none);
}

TREADLE_TEST(a_spinning_worker_is_called_for_less_than_a_parked_one) {
    Help help = long_op();
    help.gain_ns = kCost.worth_calling_spinner_ns();
    help.other = Idle::spinning;
    CHECK(choose_helper(help, kCost) == Helper::other);
    help.other = Idle::parked;
    CHECK(choose_helper(help, kCost) == Helper::unpark);
    help.gain_ns = kCost.worth_waking_ns();
    CHECK(choose_helper(help, kCost) == Helper::other_if_worth_waking);
    help.gain_ns = kCost.worth_calling_spinner_ns() - 1;
    CHECK(choose_helper(help, kCost) == Helper::none);
    help.caller = Idle::spinning;
    CHECK(choose_helper(help, kCost) == Helper::caller);
}

TREADLE_TEST(a_parked_caller_needs_a_slot_unless_it_borrows_one) {
    Help help = long_op();
    help.caller = Idle::parked;
    CHECK(choose_helper(help, kCost) == Helper::caller);
    help.has_free_slot = false;
    CHECK(choose_helper(help, kCost) == Helper::none);
    help.caller_borrows = true;
    CHECK(choose_helper(help, kCost) == Helper::caller);
}

TREADLE_TEST(a_thread_is_started_for_one_long_op_or_for_many) {
    Help help = long_op();
    CHECK(choose_helper(help, kCost) == Helper::start);
    help.gain_ns = kCost.worth_calling_spinner_ns();
    CHECK(choose_helper(help, kCost) == Helper::start);
    help.remaining_ns = 2 * kCost.worth_starting_ns() - 1;
    CHECK(choose_helper(help, kCost) == Helper::none);
    help.gain_ns = kCost.worth_starting_ns();
    CHECK(choose_helper(help, kCost) == Helper::start);
    help.may_start = false;
    CHECK(choose_helper(help, kCost) == Helper::none);
}

TREADLE_TEST(a_reserved_slot_is_for_its_caller_unless_help_saves_much) {
    CHECK(may_use_free_slot(0, 2, 1, false));
    CHECK(!may_use_free_slot(0, 1, 1, false));
    CHECK(may_use_free_slot(kWorthReservedSlotNs, 1, 1, false));
    CHECK(may_use_free_slot(0, 1, 1, true));
    CHECK(!may_use_free_slot(kWorthReservedSlotNs, 0, 0, true));
}

TREADLE_TEST(turns_end_for_shorter_runs_soon_and_for_others_when_overdue) {
    CHECK_EQUAL(kEndlessNs, turn_end_ns(100, 1e9, Waiting::nobody));
    CHECK_EQUAL(100 + kTurnNs, turn_end_ns(100, 1e9, Waiting::shorter_run));
    CHECK_EQUAL(100 + 2'000'000'000, turn_end_ns(100, 1e9, Waiting::runs));
    CHECK_EQUAL(100 + kTurnNs, turn_end_ns(100, 1e3, Waiting::runs));
    CHECK(turn_end_ns(100, 1e300, Waiting::runs) > 100);
}

TREADLE_TEST(slots_are_reserved_for_a_part_of_a_run_within_bounds) {
    CHECK_EQUAL(500'000, reservation_ns(0));
    CHECK_EQUAL(1'000'000, reservation_ns(8e6));
    CHECK_EQUAL(5'000'000, reservation_ns(1e12));
}

TREADLE_TEST(after_workers_that_came_too_late_help_must_save_more) {
    WakeRecord record;
    CHECK(record.is_worth(1, kCost));
    record.note(false);
    CHECK_EQUAL(2 * kCost.worth_waking_ns(), record.least_ns(kCost));
    CHECK(!record.is_worth(kCost.worth_waking_ns(), kCost));
    CHECK(record.is_worth(kCost.worth_waking_ns(), kCost));  // with what the first would have saved
    for (int i = 0; i < 9; ++i) record.note(false);
    CHECK_EQUAL(kMostReluctance * kCost.worth_waking_ns(), record.least_ns(kCost));
    for (int i = 0; i < 9; ++i) record.note(true);
    CHECK_EQUAL(kCost.worth_waking_ns(), record.least_ns(kCost));
}

TREADLE_TEST(spins_are_short_after_one_in_vain_but_for_probes) {
    SpinRecord record;
    CHECK_EQUAL(1600, record.limit(1600));
    record.note_futile();
    CHECK_EQUAL(100, record.limit(1600));
    for (int i = 0; i < 7; ++i) record.note_futile();
    CHECK_EQUAL(1600, record.limit(1600));
    record.note_futile();
    record.note_answered();
    CHECK_EQUAL(1600, record.limit(1600));
}

}  // namespace treadle
