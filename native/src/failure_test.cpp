// Failures, cancellation, nested runs, blocking tasks, closing.
#include <atomic>
#include <chrono>
#include <thread>

#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

std::int32_t fail_at(void* const*, const std::int64_t* args, std::int64_t chunk, void*) {
    return chunk == args[0] ? 42 : 0;
}

struct Stop : std::runtime_error {
    Stop() : std::runtime_error("stop") {}
};

Request polled(void (*poll)()) {
    Request request;
    request.poll = poll;
    return request;
}

std::unique_ptr<Program> host_program(HostCall host, bool blocking = false) {
    Builder builder;
    builder.buffers.clear();
    builder.add_host(std::move(host), blocking);
    return builder.build();
}

}  // namespace

TREADLE_TEST_WORKERS(a_kernel_failure_at_any_position_reaches_the_caller) {
    Team team("t", {workers, workers});
    RandomDag healthy(1, 30);
    for (std::int64_t bad = 0; bad < 12; ++bad) {
        Builder builder;
        builder.buffers = {{BufferKind::arena, 0}};
        for (std::int64_t i = 0; i < 12; ++i) {
            builder.add_kernel(fail_at, {i == bad ? 3 : -1}, 8);
            if (i >= 3) builder.link(i - 3, i);
        }
        const auto program = builder.build();
        try {
            team.run(*program, {});
            check::fail(__FILE__, __LINE__, "nothing was thrown");
        } catch (const KernelFailure& failure) {
            CHECK_EQUAL(bad, failure.step);
            CHECK_EQUAL(42, failure.code);
        }
        healthy.run(team);
        CHECK_EQUAL(1u, program->contexts());
    }
}

TREADLE_TEST_WORKERS(the_first_failure_is_reported_and_no_later_task_starts) {
    Team team("t", {workers, workers});
    std::atomic<int> started{0};
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 50; ++i) {
        builder.add_host([&](auto) {
            ++started;
            throw Stop();
        });
        builder.add_host([&](auto) { started += 1000; });
        builder.link(2 * i, 2 * i + 1);
    }
    const auto program = builder.build();
    CHECK_THROWS(Stop, team.run(*program, {}));
    CHECK(started <= workers);
}

TREADLE_TEST_WORKERS(nested_runs_finish_at_every_depth) {
    Team team("t", {workers, workers});
    RandomDag leaf(2, 30);
    const auto inner = host_program([&](auto) { leaf.run(team); });
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 8; ++i) builder.add_host([&](auto) { team.run(*inner, {}); });
    const auto outer = builder.build();
    for (int i = 0; i < 10; ++i) team.run(*outer, {});
}

TREADLE_TEST_WORKERS(teams_that_call_each_other_cannot_deadlock) {
    Team left("l", {workers, 1});
    Team right("r", {1, workers});
    RandomDag leaf(2, 20);
    const auto on_left = host_program([&](auto) { leaf.run(left); });
    const auto on_right = host_program([&](auto) { leaf.run(right); });
    const auto to_right = host_program([&](auto) { right.run(*on_left, {}); });
    const auto to_left = host_program([&](auto) { left.run(*on_right, {}); });
    std::thread other([&] {
        for (int i = 0; i < 30; ++i) right.run(*to_left, {});
    });
    for (int i = 0; i < 30; ++i) left.run(*to_right, {});
    other.join();
}

TREADLE_TEST_WORKERS(a_failure_of_a_nested_run_reaches_the_outer_caller) {
    Team team("t", {workers, workers});
    const auto inner = host_program([](auto) { throw Stop(); });
    const auto outer = host_program([&](auto) { team.run(*inner, {}); });
    CHECK_THROWS(Stop, team.run(*outer, {}));
}

TREADLE_TEST(at_most_inter_op_blocking_tasks_run_without_a_slot) {
    Team team("t", {1, 3});
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    std::atomic<bool> computed{false};
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 9; ++i) {
        builder.add_host(
            [&](auto) {
                raise_to(most, ++inside);
                // Finishes only if compute workers go on meanwhile.
                while (!computed) std::this_thread::sleep_for(1ms);
                --inside;
            },
            true);
    }
    builder.add_host([&](auto) {
        while (inside < 3) std::this_thread::sleep_for(1ms);
        computed = true;
    });
    const auto program = builder.build();
    team.run(*program, {});
    CHECK_EQUAL(3, most.load());
}

TREADLE_TEST_WORKERS(blocking_workers_execute_only_blocking_tasks) {
    Team team("t", {workers, workers});
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 40; ++i) {
        const bool blocking = i % 2 == 0;
        builder.add_host(
            [&, blocking](auto) {
                if (!blocking) raise_to(most, ++inside);
                std::this_thread::sleep_for(200us);
                if (!blocking) --inside;
            },
            blocking);
        if (i >= 8) builder.link(i - 8, i);
    }
    const auto program = builder.build();
    for (int i = 0; i < 5; ++i) team.run(*program, {});
    CHECK(most <= workers);
}

TREADLE_TEST(a_blocking_task_may_run_a_program_with_blocking_tasks) {
    Team team("t", {1, 1});
    const auto inner = host_program([](auto) { std::this_thread::sleep_for(1ms); }, true);
    const auto outer = host_program([&](auto) { team.run(*inner, {}); }, true);
    team.run(*outer, {});
}

TREADLE_TEST(a_failing_blocking_task_ends_the_run) {
    Team team("t", {2, 2});
    const auto program = host_program([](auto) { throw Stop(); }, true);
    CHECK_THROWS(Stop, team.run(*program, {}));
}

TREADLE_TEST_WORKERS(an_exception_from_the_poll_ends_the_run) {
    Team team("t", {workers, 1});
    Builder builder;
    builder.buffers = {{BufferKind::arena, 0}};
    builder.add_kernel(
        [](void* const*, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
            std::this_thread::sleep_for(1ms);
            return 0;
        },
        {}, 1'000'000'000);  // a run that is not ended hangs
    const auto program = builder.build();
    const auto stop = [] { throw Stop(); };
    std::thread other([&] { CHECK_THROWS(Stop, team.run(*program, {}, polled(stop))); });
    CHECK_THROWS(Stop, team.run(*program, {}, polled(stop)));
    other.join();
}

TREADLE_TEST(close_waits_for_runs_and_refuses_later_ones) {
    Team team("t", {4, 4});
    std::atomic<int> done{0};
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 20; ++i) {
        builder.add_host([&](auto) {
            std::this_thread::sleep_for(2ms);
            ++done;
        });
    }
    const auto program = builder.build();
    std::thread caller([&] { team.run(*program, {}); });
    while (done == 0) std::this_thread::yield();
    team.close();
    CHECK_EQUAL(20, done.load());
    caller.join();
    CHECK_EQUAL(0u, team.threads());
    CHECK_THROWS(std::runtime_error, team.run(*program, {}));
    team.close();
}

TREADLE_TEST(close_with_cancel_ends_runs) {
    Team team("t", {2, 2});
    std::atomic<bool> started{false};
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 100000; ++i) {
        builder.add_host([&](auto) {
            started = true;
            std::this_thread::sleep_for(1ms);
        });
    }
    const auto program = builder.build();
    std::thread caller([&] { CHECK_THROWS(std::runtime_error, team.run(*program, {})); });
    while (!started) std::this_thread::yield();
    team.close(true);
    caller.join();
}

TREADLE_TEST(a_team_cannot_be_closed_from_one_of_its_steps) {
    Team team("t", {2, 2});
    const auto program = host_program([&](auto) { team.close(); });
    CHECK_THROWS(std::runtime_error, team.run(*program, {}));
    const auto nothing = host_program([](auto) {});
    team.run(*nothing, {});
}

}  // namespace treadle::testing
