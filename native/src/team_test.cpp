#include "treadle/team.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "treadle/scheduler.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

// Records how many workers are inside at once, the largest number so far, and their threads.
struct Gauge {
    void enter() {
        raise_to(most, inside.fetch_add(1) + 1);
        const std::lock_guard lock(mutex);
        threads.insert(std::this_thread::get_id());
    }
    void leave() { inside.fetch_sub(1); }
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    std::mutex mutex;
    std::set<std::thread::id> threads;
};

std::int32_t gauge_kernel(void* const* pointers, const std::int64_t* args, std::int64_t, void*) {
    auto& gauge = *static_cast<Gauge*>(pointers[0]);
    gauge.enter();
    std::this_thread::sleep_for(std::chrono::microseconds(args[0]));
    gauge.leave();
    return 0;
}

void run_gauged(Team& team, Program& program, Gauge& gauge, Limits asked = {}) {
    void* bound[] = {&gauge};
    team.run(program, bound, Request(asked));
}

}  // namespace

TREADLE_TEST_WORKERS(random_dags_give_correct_results) {
    Team team("t", {workers, workers});
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
        RandomDag dag(seed, 60);
        for (int i = 0; i < 5; ++i) dag.run(team);
    }
    CHECK(team.threads() <= static_cast<std::size_t>(workers - 1));
}

TREADLE_TEST_WORKERS(results_do_not_depend_on_limits) {
    RandomDag dag(7, 80);
    for (const int other : {1, 2, 5}) {
        Team team("t", {workers, other});
        for (int i = 0; i < 10; ++i) dag.run(team);
        for (int i = 0; i < 10; ++i) dag.run(team, Request({other, workers}));
        for (int i = 0; i < 5; ++i) dag.run(team, Request({1, 1}));
    }
}

TREADLE_TEST(an_empty_program_runs) {
    Team team("t", {2, 2});
    Builder builder;
    builder.buffers.clear();
    const auto program = builder.build();
    team.run(*program, {});
}

TREADLE_TEST_WORKERS(one_op_has_at_most_intra_op_workers) {
    Team team("t", {workers, 16});
    Builder builder;
    builder.add_kernel(gauge_kernel, {200}, 100);
    const auto program = builder.build();
    Gauge gauge;
    for (int i = 0; i < 3 || gauge.most < std::min(workers, 2); ++i) run_gauged(team, *program, gauge);
    CHECK(gauge.most <= workers);
}

TREADLE_TEST_WORKERS(at_most_inter_op_ops_are_in_progress) {
    Team team("t", {16, workers});
    Builder builder;
    for (int i = 0; i < 60; ++i) builder.add_kernel(gauge_kernel, {300}, 1);
    const auto program = builder.build();
    Gauge gauge;
    do run_gauged(team, *program, gauge);
    while (gauge.most < std::min(workers, 2));
    CHECK(gauge.most <= workers);
}

TREADLE_TEST_WORKERS(concurrent_callers_never_exceed_the_slots) {
    Team team("t", {workers, workers});
    Builder builder;
    for (int i = 0; i < 10; ++i) builder.add_kernel(gauge_kernel, {100}, 4);
    const auto program = builder.build();
    Gauge gauge;
    std::vector<std::thread> callers;
    for (int c = 0; c < 6; ++c) {
        callers.emplace_back([&] {
            for (int i = 0; i < 4; ++i) run_gauged(team, *program, gauge);
        });
    }
    for (std::thread& caller : callers) caller.join();
    CHECK(gauge.most <= workers);
    CHECK(program->contexts() <= 6);
}

TREADLE_TEST_WORKERS(concurrent_callers_each_get_their_results) {
    Team team("t", {workers, workers});
    RandomDag dag(3, 50);
    std::atomic<int> faults{0};
    std::vector<std::thread> callers;
    for (int c = 0; c < 5; ++c) {
        callers.emplace_back([&, c] {
            try {
                for (int i = 0; i < 40; ++i) dag.run(team, Request(i % 4 == c ? Limits{1, 1} : Limits{}));
            } catch (...) {
                ++faults;
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    CHECK_EQUAL(0, faults.load());
}

TREADLE_TEST(limits_may_change_during_runs) {
    Team team("t", {4, 4});
    RandomDag dag(11, 80, 500);
    while_limits_change(team, 6, [&] {
        std::vector<std::thread> callers;
        for (int c = 0; c < 3; ++c) {
            callers.emplace_back([&] {
                for (int i = 0; i < 150; ++i) dag.run(team);
            });
        }
        for (std::thread& caller : callers) caller.join();
    });
    team.set_limits({1, 1});
    dag.run(team);
    CHECK_EQUAL(1, team.limits().intra_op);
}

TREADLE_TEST(lowered_limits_apply_from_the_next_op_and_end_threads) {
    Team team("t", {8, 8});
    Builder builder;
    for (int i = 0; i < 64; ++i) builder.add_kernel(gauge_kernel, {500}, 1);
    const auto program = builder.build();
    Gauge gauge;
    while (team.threads() < 7) run_gauged(team, *program, gauge);
    CHECK_EQUAL(7u, team.threads());
    team.set_limits({2, 2});
    CHECK_EQUAL(1u, team.threads());
    Gauge later;
    run_gauged(team, *program, later);
    CHECK(later.most <= 2);
}

TREADLE_TEST(many_short_ops_together_start_a_thread) {
    const auto threads_after = [](int ops) {
        Team team("t", {2, 1});
        Builder builder;
        for (int i = 0; i < ops; ++i) {
            const auto op = builder.add_kernel(gauge_kernel, {1}, 4, 20'000);
            if (op > 0) builder.link(op - 1, op);
        }
        Gauge gauge;
        run_gauged(team, *builder.build(), gauge);
        return team.threads();
    };
    CHECK_EQUAL(0u, threads_after(4));
    CHECK_EQUAL(1u, threads_after(64));
}

// Help saves at most 40 us in each run.
TREADLE_TEST(many_short_runs_in_a_row_together_start_a_thread) {
    Team team("t", {2, 1});
    Builder builder;
    for (int i = 0; i < 4; ++i) {
        const auto op = builder.add_kernel(gauge_kernel, {1}, 4, 20'000);
        if (op > 0) builder.link(op - 1, op);
    }
    const auto program = builder.build();
    Gauge gauge;
    for (int i = 0; i < 20; ++i) {
        run_gauged(team, *program, gauge);
        std::this_thread::sleep_for(1ms);
    }
    CHECK_EQUAL(0u, team.threads());
    while (team.threads() == 0) run_gauged(team, *program, gauge);  // a hang is a failure
    CHECK_EQUAL(1u, team.threads());
}

// One of fifty tasks is independent of the others.
TREADLE_TEST(a_run_with_little_shareable_work_takes_the_serial_path) {
    const auto threads_after = [](int beside, bool calls_host) {
        Team team("t", {1, 2});
        Builder builder;
        std::int64_t last = -1;
        for (int i = 0; i < 50; ++i) {
            const auto task = builder.add_kernel(gauge_kernel, {1});
            if (i >= beside && last >= 0) builder.link(last, task);
            if (i >= beside) last = task;
        }
        if (calls_host) builder.link(last, builder.add_host([](auto) {}));
        Gauge gauge;
        run_gauged(team, *builder.build(), gauge);
        return team.threads();
    };
    CHECK_EQUAL(0u, threads_after(1, false));
    CHECK_EQUAL(1u, threads_after(10, false));
    CHECK_EQUAL(1u, threads_after(1, true));
}

// If the worker executed it, the caller would park and have to be woken at the end of the run.
TREADLE_TEST(serial_work_runs_on_the_spinning_callers_thread) {
    struct Threads {
        std::atomic<int> begun{0};
        Team* team;
        std::thread::id caller = std::this_thread::get_id();
        std::thread::id last;
    };
    const Kernel branch = [](void* const* pointers, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
        auto& threads = *static_cast<Threads*>(pointers[0]);
        ++threads.begun;
        while (threads.begun < 2) std::this_thread::yield();  // a hang is a failure
        const bool is_caller = std::this_thread::get_id() == threads.caller;
        while (!is_caller && threads.team->status().spinning == 0) std::this_thread::yield();
        return 0;
    };
    const Kernel join = [](void* const* pointers, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
        static_cast<Threads*>(pointers[0])->last = std::this_thread::get_id();
        return 0;
    };
    Builder builder;
    const auto left = builder.add_kernel(branch, {});
    const auto right = builder.add_kernel(branch, {});
    const auto last = builder.add_kernel(join, {});
    builder.link(left, last);
    builder.link(right, last);
    const auto program = builder.build();
    Team team("t", {1, 2}, 10s);
    for (int i = 0; i < 10; ++i) {
        Threads threads;
        threads.team = &team;
        void* bound[] = {&threads};
        team.run(*program, bound);
        CHECK(threads.last == threads.caller);
    }
}

// The runs begin with an op that cannot be shared, so a spinning worker is not called at once, nor unparked a second
// time.
TREADLE_TEST(no_worker_spins_after_many_short_runs_in_a_row) {
    Team team("t", {4, 1});
    const Kernel nothing = [](void* const*, const std::int64_t*, std::int64_t, void*) -> std::int32_t { return 0; };
    Builder builder;
    builder.link(builder.add_kernel(nothing, {}, 1, 1'000), builder.add_kernel(nothing, {}, 4, 60'000));
    const auto program = builder.build();
    void* bound[] = {&team};
    while (team.threads() < 2) team.run(*program, bound);  // a hang is a failure
    for (int i = 0; i < 2000; ++i) team.run(*program, bound);
    while (team.status().spinning > 0) std::this_thread::sleep_for(1ms);
    CHECK_EQUAL(0, team.status().slots);
}

TREADLE_TEST(impossible_limits_are_refused) {
    CHECK_THROWS(std::invalid_argument, Team("t", {0, 1}));
    CHECK_THROWS(std::invalid_argument, Team("t", {1, 4097}));
    Team team("t", {1, 1});
    CHECK_THROWS(std::invalid_argument, team.set_limits({-1, 1}));
    CHECK_EQUAL(1, team.limits().intra_op);
}

TREADLE_TEST(a_run_may_request_more_than_the_teams_limits) {
    Team team("t", {1, 1});
    Builder builder;
    builder.add_kernel(gauge_kernel, {500}, 40);
    const auto program = builder.build();
    Gauge gauge;
    do run_gauged(team, *program, gauge, {3, 1});
    while (gauge.most < 2);
    CHECK(gauge.most <= 3);
    Gauge later;
    run_gauged(team, *program, later);
    CHECK_EQUAL(1, later.most.load());
}

TREADLE_TEST(an_idle_team_uses_no_cpu) {
    Team team("t", {8, 8});
    RandomDag dag(5, 100);
    dag.run(team);
    const auto used = [] {
        const std::clock_t before = std::clock();
        std::this_thread::sleep_for(300ms);
        return std::clock() - before;
    };
    while (used() >= CLOCKS_PER_SEC / 100) {  // on a busy machine threads park late; a hang is a failure
    }
}

TREADLE_TEST(most_urgent_ready_tasks_start_first) {
    Team team("t", {2, 1});
    Builder builder;
    std::vector<int> order;
    builder.add_host([&](auto) { order.push_back(-1); });
    for (int i = 0; i < 20; ++i) {
        StepSpec step;
        step.host = [&order, i](auto) { order.push_back(i); };
        step.cost_ns = kCostly;
        builder.link(0, builder.add(std::move(step), (i * 7) % 20));
    }
    builder.buffers.clear();
    const auto program = builder.build();
    team.run(*program, {});
    for (std::size_t i = 2; i < order.size(); ++i) CHECK((order[i - 1] * 7) % 20 > (order[i] * 7) % 20);
}

TREADLE_TEST(workers_apply_the_callers_rounding_mode) {
    Team team("t", {4, 1});
    Builder builder;
    const FpMode mode = get_fp_mode();
#if defined(__SSE__)
    const FpMode special = mode | 0x8040;  // flush to zero, denormals are zero
#else
    const FpMode special = mode;
#endif
    static std::atomic<int> wrong{0};
    builder.add_kernel(
        [](void* const* pointers, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
            std::this_thread::sleep_for(50us);
            if (get_fp_mode() != *static_cast<FpMode*>(pointers[0])) ++wrong;
            return 0;
        },
        {}, 64);
    const auto program = builder.build();
    for (const FpMode wanted : {special, mode}) {
        set_fp_mode(wanted);
        FpMode copy = wanted;
        void* bound[] = {&copy};
        team.run(*program, bound);
    }
    CHECK_EQUAL(0, wrong.load());
}

TREADLE_TEST(scratch_is_aligned_and_private_to_each_worker) {
    Team team("t", {4, 4});
    Builder builder;
    static std::atomic<int> wrong{0};
    for (int i = 0; i < 8; ++i) {
        builder.add_kernel(
            [](void* const*, const std::int64_t*, std::int64_t chunk, void* scratch) -> std::int32_t {
                auto* const mine = static_cast<std::int64_t*>(scratch);
                if (reinterpret_cast<std::uintptr_t>(scratch) % 64 != 0) ++wrong;
                mine[0] = mine[127] = chunk;
                std::this_thread::sleep_for(20us);
                if (mine[0] != chunk || mine[127] != chunk) ++wrong;
                return 0;
            },
            {}, 16);
    }
    builder.buffers = {{BufferKind::arena, 0}};
    const auto program = builder.build(1024);
    team.run(*program, {});
    CHECK_EQUAL(0, wrong.load());
}

}  // namespace treadle::testing
