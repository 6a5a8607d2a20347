#include "treadle/run_registry.h"

#include <vector>

#include "treadle/check.h"
#include "treadle/scheduler.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

// Runs of a program of three tasks, the last of which waits for the others, with callers that hold nothing.
struct Registry {
    explicit Registry(bool blocking = false) : program(build(blocking)) {}

    static std::unique_ptr<Program> build(bool blocking) {
        Builder builder;
        builder.add_host([](auto) {}, blocking);
        builder.add_host([](auto) {});
        builder.add_host([](auto) {});
        builder.link(0, 2);
        builder.link(1, 2);
        return builder.build();
    }

    Context& add(int priority = 0, Limits limits = {}) {
        contexts.push_back(std::make_unique<Context>(*program));
        callers.push_back(std::make_unique<Worker>(scheduler, slots, Role::caller));
        Request request(limits);
        request.priority = priority;
        runs.add(*contexts.back(), request, *callers.back());
        return *contexts.back();
    }

    Scheduler scheduler{"t", {1, 1}, std::chrono::nanoseconds(0), {}, {}};
    Slots slots;
    std::unique_ptr<Program> program;
    RunRegistry runs{{2, 1}};
    std::vector<std::unique_ptr<Context>> contexts;
    std::vector<std::unique_ptr<Worker>> callers;
};

}  // namespace

TREADLE_TEST(runs_are_served_by_priority_and_then_by_arrival) {
    Registry registry;
    Context& first = registry.add();
    Context& urgent = registry.add(1);
    Context& second = registry.add();
    const std::deque<Context*> expected{&urgent, &first, &second};
    CHECK(registry.runs.all() == expected);
    CHECK_EQUAL(3, registry.runs.waiting());
    registry.runs.remove(first);
    CHECK_EQUAL(2u, registry.runs.all().size());
}

TREADLE_TEST(a_run_is_found_by_its_number_while_it_is_listed) {
    Registry registry;
    Context& run = registry.add();
    run.run_id = 7;
    CHECK(registry.runs.find(7) == &run);
    CHECK(registry.runs.find(8) == nullptr);
    registry.runs.remove(run);
    CHECK(registry.runs.find(7) == nullptr);
}

TREADLE_TEST(the_largest_limits_of_all_runs_count_while_they_are_listed) {
    Registry registry;
    registry.runs.update_limits(registry.slots);
    CHECK_EQUAL(2, registry.slots.capacity().slot_limit);
    CHECK_EQUAL(1, registry.slots.capacity().permit_limit);
    Context& wide = registry.add(0, {1, 5});
    CHECK_EQUAL(5, registry.runs.limits_of(wide).inter_op);
    registry.runs.update_limits(registry.slots);
    CHECK_EQUAL(5, registry.slots.capacity().slot_limit);
    CHECK_EQUAL(5, registry.slots.capacity().permit_limit);
    registry.runs.remove(wide);
    registry.runs.set_limits({3, 2});
    registry.runs.update_limits(registry.slots);
    CHECK_EQUAL(3, registry.slots.capacity().slot_limit);
    CHECK_EQUAL(2, registry.slots.capacity().permit_limit);
}

TREADLE_TEST(tasks_are_ready_once_those_before_them_have_finished) {
    Registry registry;
    Context& run = registry.add();
    CHECK(!is_starved(run));
    registry.runs.queue_rest(run, 1);
    CHECK(is_starved(run));
    CHECK_EQUAL(1u, run.ready.size());
    CHECK_EQUAL(1u, run.finished_tasks);
    registry.runs.drop_tasks(run);
    CHECK(run.ready.empty());
    CHECK_EQUAL(0.0, run.ready_ns);
}

TREADLE_TEST(blocking_tasks_wait_for_blocking_workers_unless_the_run_is_nested) {
    Registry registry(true);
    Context& run = registry.add();
    registry.runs.queue_rest(run, 0);
    CHECK_EQUAL(1u, run.ready.size());
    CHECK(registry.runs.has_blocking_tasks());
    CHECK(&registry.runs.blocking_run() == &run);
    Op* const op = registry.runs.begin_blocking();
    CHECK_EQUAL(1, run.blocking_ops);
    CHECK_EQUAL(1, registry.runs.blocking_ops());
    CHECK(!registry.runs.has_blocking_tasks());
    registry.runs.end_blocking(*op);
    CHECK_EQUAL(0, run.blocking_ops);
    Context& nested = registry.add();
    nested.nested = true;
    registry.runs.queue_rest(nested, 0);
    CHECK_EQUAL(2u, nested.ready.size());
    CHECK(!registry.runs.has_blocking_tasks());
}

TREADLE_TEST(a_turn_ends_when_a_shorter_run_of_the_same_priority_starves) {
    Registry registry;
    Context& served = registry.add();
    Context& waiting = registry.add();
    served.workers = 1;
    registry.runs.begin_turn(served);
    CHECK_EQUAL(kEndlessNs, registry.runs.end_of_turn(served));
    registry.runs.queue_rest(waiting, 0);
    waiting.finished_tasks = 2;
    CHECK_EQUAL(served.turn_began_ns + kTurnNs, registry.runs.end_of_turn(served));
    served.turn_began_ns -= 2 * kTurnNs;
    registry.runs.end_turn_if_over(served);
    const std::deque<Context*> expected{&waiting, &served};
    CHECK(registry.runs.all() == expected);
    CHECK_EQUAL(0, served.turn_began_ns);
    CHECK(registry.runs.starves_before(served));
    CHECK(!registry.runs.starves_before(waiting));
}

TREADLE_TEST(a_run_can_be_abandoned_when_only_host_steps_elsewhere_are_left) {
    Registry registry;
    Context& run = registry.add();
    run.workers = run.ops = run.in_host_steps = 1;
    CHECK(registry.runs.is_only_in_host_steps());
    CHECK(!can_be_abandoned(run));
    run.may_be_abandoned = run.ended_externally = true;
    CHECK(can_be_abandoned(run));
    run.caller->host_run = &run;
    CHECK(!can_be_abandoned(run));
    run.caller->host_run = nullptr;
    run.workers = 2;
    CHECK(!can_be_abandoned(run));
    CHECK(!registry.runs.is_only_in_host_steps());
    run.workers = 1;
    registry.slots.set_limits(1, 1);
    registry.slots.take_permit(run);
    registry.runs.abandon(run, registry.slots);
    CHECK_EQUAL(0, registry.slots.capacity().permits_used);
    CHECK(run.abandoned);
    CHECK(!drop_reference(run));
    CHECK(drop_reference(run));
}

}  // namespace treadle::testing
