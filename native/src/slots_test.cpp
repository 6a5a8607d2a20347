#include "treadle/slots.h"

#include "treadle/check.h"
#include "treadle/context.h"
#include "treadle/scheduler.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

// An account of `slots` slots and permits, with workers and a run that it may count.
struct Account {
    explicit Account(int count) { slots.set_limits(count, count); }

    Scheduler scheduler{"t", {1, 1}, std::chrono::nanoseconds(0), {}, {}};
    Slots slots;
    std::unique_ptr<Program> program = [] {
        Builder builder;
        builder.add_host([](auto) {});
        return builder.build();
    }();
    Context run{*program};
};

}  // namespace

TREADLE_TEST(a_worker_holds_one_slot_until_it_releases_it) {
    Account account(1);
    Worker caller(account.scheduler, account.slots, Role::caller);
    Worker other(account.scheduler, account.slots, Role::caller);
    CHECK(account.slots.has_slot_for(caller));
    CHECK(account.slots.take(caller));
    CHECK_EQUAL(0, caller.slot);
    CHECK(!account.slots.has_slot_for(other));
    CHECK_EQUAL(0, account.slots.capacity().free_slots());
    account.slots.release(caller);
    account.slots.release(caller);
    CHECK_EQUAL(-1, caller.slot);
    CHECK_EQUAL(1, account.slots.capacity().free_slots());
}

TREADLE_TEST(blocking_workers_and_borrowers_take_no_slot) {
    Account account(1);
    Worker blocking(account.scheduler, account.slots, Role::blocking);
    blocking.index = 3;
    CHECK(!account.slots.take(blocking));
    CHECK_EQUAL(-4, blocking.slot);
    account.slots.release(blocking);
    CHECK_EQUAL(-4, blocking.slot);
    Worker nested(account.scheduler, account.slots, Role::caller);
    nested.borrows_slot = true;
    CHECK(!account.slots.take(nested));
    CHECK(account.slots.has_slot_for(nested));
    CHECK_EQUAL(0, account.slots.capacity().slots_used);
}

TREADLE_TEST(an_op_uses_the_lent_permit_first) {
    Account account(2);
    Worker caller(account.scheduler, account.slots, Role::caller);
    account.run.caller = &caller;
    account.run.lent_permit_free = true;
    CHECK(account.slots.take_permit(account.run));
    CHECK(!account.slots.take_permit(account.run));
    CHECK_EQUAL(1, account.slots.capacity().permits_used);
    account.slots.release_permit(account.run, false);
    account.slots.release_permit(account.run, true);
    CHECK_EQUAL(0, account.slots.capacity().permits_used);
    CHECK(account.run.lent_permit_free);
}

TREADLE_TEST(a_returned_loan_is_free_for_others_until_it_is_restored) {
    Account account(1);
    Worker outer(account.scheduler, account.slots, Role::caller);
    Worker nested(account.scheduler, account.slots, Role::caller);
    Context outer_run(*account.program);
    CHECK(!account.slots.take_permit(outer_run));  // of the op around the part
    account.slots.take(outer);
    account.run.caller = &nested;
    account.run.lent_permit_free = true;
    nested.own_run = &account.run;
    nested.borrows_slot = true;
    nested.slot_holder = &outer;

    CHECK(account.slots.take_permit(account.run));  // of an op of the part, which goes on
    account.slots.return_loan(nested);
    CHECK(!nested.borrows_slot);
    CHECK_EQUAL(1, account.slots.capacity().free_slots());
    CHECK_EQUAL(1, account.slots.capacity().permits_used);
    account.slots.release_permit(account.run, true);
    CHECK_EQUAL(0, account.slots.capacity().permits_used);

    Worker third(account.scheduler, account.slots, Role::caller);
    account.slots.take(third);
    CHECK(account.slots.restore_loan(nested));
    CHECK(outer.slot >= 0);
    CHECK(outer.slot != third.slot);
    CHECK_EQUAL(-1, account.slots.capacity().free_slots());  // one too many, which the next op that ends gives up
    CHECK_EQUAL(1, account.slots.capacity().permits_used);
}

TREADLE_TEST(an_abandoned_run_gives_back_its_permits_but_not_the_slots_inside) {
    Account account(2);
    Worker caller(account.scheduler, account.slots, Role::caller);
    Worker inside(account.scheduler, account.slots, Role::compute);
    account.run.caller = &caller;
    for (int i = 0; i < 2; ++i) account.slots.take_permit(account.run);
    account.run.ops = 2;
    account.slots.take(inside);
    inside.is_resting = true;
    account.slots.begin_resting();
    account.slots.release_permits(account.run);
    account.slots.detach(inside);
    CHECK_EQUAL(0, account.slots.capacity().permits_used);
    CHECK_EQUAL(0, account.slots.capacity().resting);
    CHECK_EQUAL(1, account.slots.capacity().detached);
    account.slots.release_detached(inside);
    CHECK_EQUAL(0, account.slots.capacity().detached);
    CHECK_EQUAL(0, account.slots.capacity().slots_used);
}

TREADLE_TEST(whoever_stops_resting_begins_an_epoch) {
    Slots slots;
    const auto before = slots.epoch();
    slots.begin_resting();
    CHECK_EQUAL(before, slots.epoch());
    CHECK_EQUAL(1, slots.capacity().resting);
    slots.end_resting();
    CHECK_EQUAL(before + 1, slots.epoch());
}

TREADLE_TEST(a_reservation_ends_with_its_time_or_with_the_caller_that_returns) {
    Slots slots;
    CHECK_EQUAL(0, slots.reserved());
    slots.reserve(std::int64_t{1} << 60);
    slots.reserve(std::int64_t{1} << 60);
    slots.reserve(0);
    CHECK(slots.has_reservations());
    CHECK_EQUAL(2, slots.reserved());
    slots.drop_reservation();
    CHECK_EQUAL(1, slots.reserved());
    slots.drop_reservation();
    slots.drop_reservation();
    CHECK(!slots.has_reservations());
}

}  // namespace treadle::testing
