// Runs that are left by their callers while host steps of them go on, limits that change during a run, and the end.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

// What a run's tasks touch. Its memory is checked by the sanitizers: it must be there until the last task has ended.
struct World {
    std::unique_ptr<Program> program;
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> inside{0};
    std::atomic<int> ended{0};
    std::atomic<bool> stop{false};
    std::vector<int> memory = std::vector<int>(100, 7);

    // A step that goes on until `stop` in any thread but the caller's. Touches everything at its end.
    void dwell() {
        if (std::this_thread::get_id() == caller) {
            while (inside == 0 && !stop) std::this_thread::sleep_for(100us);
            return;
        }
        ++inside;
        while (!stop) std::this_thread::sleep_for(100us);
        CHECK_EQUAL(7, memory[50]);
        ++ended;
    }
};

using Worlds = std::shared_ptr<World>;

// `count` tasks of one host step each.
Worlds world_of(int count, bool blocking, const std::function<void(World&)>& step = &World::dwell) {
    auto world = std::make_shared<World>();
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < count; ++i) builder.add_host([raw = world.get(), step](auto) { step(*raw); }, blocking);
    world->program = builder.build();
    return world;
}

Request leaving(const Worlds& world, Clock::duration limit = 1h) {
    Request request;
    if (limit < 1h) request.deadline = Clock::now() + limit;
    request.keep_alive = [world = std::weak_ptr(world)] { return world.lock(); };
    return request;
}

template <typename Condition>
void wait_until(const Condition& condition) {
    while (!condition()) std::this_thread::sleep_for(100us);
}

struct Interrupt : std::runtime_error {
    Interrupt() : std::runtime_error("interrupt") {}
};

void run_again(Team& team) {
    RandomDag dag(5, 30);
    dag.run(team);
    Builder builder;
    builder.buffers.clear();
    builder.add_host([](auto) {}, true);
    builder.add_host([](auto) {});
    team.run(*builder.build(), {});
}

}  // namespace

TREADLE_TEST_WORKERS(a_blocking_step_is_left_to_itself_when_time_is_up) {
    Team team("t", {workers, workers});
    auto world = world_of(1, true);
    const std::weak_ptr<World> watched = world;
    CHECK_THROWS(RunTimeout, team.run(*world->program, {}, leaving(world, 300ms)));
    World& inside = *world;
    CHECK_EQUAL(0, inside.ended.load());
    CHECK_EQUAL(1, team.status().abandoned);
    CHECK_EQUAL(0, team.status().runs);
    run_again(team);
    world.reset();
    CHECK(!watched.expired());
    inside.stop = true;
    wait_until([&] { return watched.expired(); });
    wait_until([&] { return team.status().abandoned == 0; });
    CHECK_EQUAL(0, team.status().slots);
    run_again(team);
}

TREADLE_TEST(a_step_in_a_worker_keeps_its_place_until_it_ends_and_nothing_else) {
    for (const Limits limits : {Limits{2, 2}, Limits{4, 2}}) {
        Team team("t", limits);
        auto world = world_of(2, false);
        const std::weak_ptr<World> watched = world;
        Request request = leaving(world);
        request.token = std::make_shared<CancelToken>();
        std::thread other([&] {
            wait_until([&] { return world->inside == 1; });
            request.token->cancel();
        });
        CHECK_THROWS(RunCancelled, team.run(*world->program, {}, request));
        other.join();
        CHECK_EQUAL(1, team.status().abandoned);
        CHECK_EQUAL(1, team.status().slots);
        for (int i = 0; i < 5; ++i) run_again(team);
        team.set_limits({1, 1});
        run_again(team);
        World& inside = *world;
        world.reset();
        inside.stop = true;
        wait_until([&] { return watched.expired(); });
        wait_until([&] { return team.status().abandoned == 0; });
        CHECK_EQUAL(0, team.status().slots);
        team.set_limits(limits);
        for (int i = 0; i < 5; ++i) run_again(team);
    }
}

TREADLE_TEST(what_polls_throw_leaves_steps_to_themselves_too) {
    Team team("t", {2, 2});
    auto world = world_of(1, true);
    Request request = leaving(world);
    request.poll = [] { throw Interrupt(); };
    CHECK_THROWS(Interrupt, team.run(*world->program, {}, request));
    CHECK_EQUAL(1, team.status().abandoned);
    world->stop = true;
}

TREADLE_TEST(a_failure_waits_for_steps_until_the_deadline_and_is_what_is_thrown) {
    Team team("t", {2, 2});
    auto world = std::make_shared<World>();
    Builder builder;
    builder.buffers.clear();
    builder.add_host([raw = world.get()](auto) { raw->dwell(); }, true);
    builder.add_host([raw = world.get()](auto) {
        wait_until([&] { return raw->inside == 1; });
        throw Interrupt();
    });
    world->program = builder.build();
    const auto start = Clock::now();
    CHECK_THROWS(Interrupt, team.run(*world->program, {}, leaving(world, 400ms)));
    CHECK(Clock::now() - start >= 400ms);
    CHECK_EQUAL(0, world->ended.load());
    world->stop = true;
}

TREADLE_TEST(kernels_have_ended_when_run_returns) {
    static std::atomic<int> in_kernels{0};
    const Kernel doze = [](void* const*, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
        ++in_kernels;
        std::this_thread::sleep_for(5ms);
        --in_kernels;
        return 0;
    };
    Team team("t", {4, 4});
    for (int i = 0; i < 5; ++i) {
        auto world = std::make_shared<World>();
        Builder builder;
        builder.buffers = {{BufferKind::arena, 0}};
        for (int k = 0; k < 4; ++k) builder.add_kernel(doze, {}, 1000);
        builder.add_host([raw = world.get()](auto) { raw->dwell(); }, true);
        world->program = builder.build();
        CHECK_THROWS(RunTimeout, team.run(*world->program, {}, leaving(world, 300ms)));
        CHECK_EQUAL(0, in_kernels.load());
        CHECK_EQUAL(0, world->ended.load());
        world->stop = true;
    }
}

TREADLE_TEST(a_run_whose_memory_nobody_keeps_is_waited_for) {
    Team team("t", {2, 2});
    auto world = world_of(1, true);
    Request request = leaving(world, 10ms);
    request.keep_alive = nullptr;
    std::thread other([&] {
        std::this_thread::sleep_for(50ms);
        world->stop = true;
    });
    CHECK_THROWS(RunTimeout, team.run(*world->program, {}, request));
    CHECK_EQUAL(1, world->ended.load());
    other.join();
}

TREADLE_TEST(what_a_left_step_throws_is_dropped_and_nothing_follows_it) {
    Team team("t", {2, 2});
    auto world = std::make_shared<World>();
    Builder builder;
    builder.buffers.clear();
    builder.add_host([raw = world.get()](auto) {
        raw->dwell();
        throw Interrupt();
    }, true);
    builder.add_host([raw = world.get()](auto) { raw->ended += 100; });
    builder.link(0, 1);
    world->program = builder.build();
    CHECK_THROWS(RunTimeout, team.run(*world->program, {}, leaving(world, 300ms)));
    world->stop = true;
    wait_until([&] { return team.status().abandoned == 0; });
    CHECK_EQUAL(1, world->ended.load());
    run_again(team);
}

TREADLE_TEST(runs_inside_of_a_left_step_end_and_may_be_left_themselves) {
    Team team("t", {3, 3});
    Team other_team("u", {2, 2});
    for (Team* inner_team : {&team, &other_team}) {
        auto inner = world_of(2, false);
        auto outer = std::make_shared<World>();
        std::atomic<bool> inner_has_ended{false};
        Builder builder;
        builder.buffers.clear();
        builder.add_host([&, raw = outer.get()](auto) {
            inner->caller = std::this_thread::get_id();
            CHECK_THROWS(RunCancelled, inner_team->run(*inner->program, {}, leaving(inner)));
            inner_has_ended = true;
            raw->ended = 1;
        }, true);
        outer->program = builder.build();
        Request request = leaving(outer);
        request.token = std::make_shared<CancelToken>();
        std::thread canceller([&] {
            wait_until([&] { return inner->inside > 0; });
            request.token->cancel();
        });
        CHECK_THROWS(RunCancelled, team.run(*outer->program, {}, request));
        canceller.join();
        wait_until([&] { return inner_has_ended.load(); });
        CHECK_EQUAL(0, inner->ended.load());
        inner->stop = true;
        wait_until([&] { return team.status().abandoned + other_team.status().abandoned == 0; });
        run_again(team);
        run_again(other_team);
    }
}

TREADLE_TEST(a_team_may_go_before_those_it_has_left) {
    auto world = world_of(2, true);
    const std::weak_ptr<World> watched = world;
    {
        Team team("t", {2, 2});
        CHECK_THROWS(RunTimeout, team.run(*world->program, {}, leaving(world, 300ms)));
    }
    World& inside = *world;
    world.reset();
    inside.stop = true;
    wait_until([&] { return watched.expired(); });
}

TREADLE_TEST(the_last_of_a_left_run_may_drop_the_team_itself) {
    auto team = std::make_shared<Team>("t", Limits{2, 2});
    auto world = world_of(1, true);
    const std::weak_ptr<Team> watched = team;
    Request request = leaving(world, 300ms);
    request.keep_alive = [&] { return std::make_shared<std::pair<Worlds, std::shared_ptr<Team>>>(world, team); };
    CHECK_THROWS(RunTimeout, team->run(*world->program, {}, request));
    team.reset();
    CHECK(!watched.expired());
    world->stop = true;
    wait_until([&] { return watched.expired(); });
}

TREADLE_TEST_WORKERS(runs_may_be_left_at_any_moment) {
    Team team("t", {workers, workers});
    std::mt19937 random(static_cast<unsigned>(workers));
    std::atomic<int> alive{0};
    const auto nap = [](World& world) {
        std::this_thread::sleep_for(std::chrono::microseconds(world.memory[3] * 40));
    };
    RandomDag healthy(3, 20);
    for (int i = 0; i < 60; ++i) {
        auto made = world_of(6, i % 3 == 0, nap);
        ++alive;
        const Worlds world(made.get(), [&, made](World*) { --alive; });
        try {
            team.run(*world->program, {}, leaving(world, std::chrono::microseconds(random() % 1500)));
        } catch (const RunTimeout&) {
        }
        if (i % 4 == 0) healthy.run(team);
    }
    wait_until([&] { return alive == 0 && team.status().abandoned == 0; });
    CHECK_EQUAL(0, team.status().slots);
    healthy.run(team);
}

TREADLE_TEST(limits_of_one_run_and_of_many_change_while_they_are_in_progress) {
    static std::atomic<int> inside{0};
    static std::atomic<int> most{0};
    static std::atomic<int> hoped{0};
    const Kernel doze = [](void* const*, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
        const int now = ++inside;
        int before = most.load();
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        do std::this_thread::sleep_for(200us);
        while (most < hoped);  // somebody comes to help, on a busy machine late
        --inside;
        return 0;
    };
    Team team("t", {4, 1});
    for (const bool own : {true, false}) {
        Request request;
        const auto limits = std::make_shared<RunLimits>();
        (own ? request.own_limits : request.common_limits) = limits;
        if (own) request.common_limits = std::make_shared<RunLimits>();
        int changes = 0;
        Builder builder;
        builder.buffers = {{BufferKind::arena, 0}};
        const auto change = [&](Limits to, int wanted, int next) {
            const auto task = builder.add_host([&, to, wanted, next](auto) {
                CHECK(most <= wanted);
                most = 0;
                hoped = std::min(next, 2);
                limits->set(to);
                ++changes;
            });
            builder.link(task - 1, task);
            builder.link(task, builder.add_kernel(doze, {}, 400));
        };
        builder.add_kernel(doze, {}, 400);
        hoped = 2;
        change({1, 0}, 4, 1);
        change({2, 0}, 1, 2);
        change({0, 0}, 2, 4);
        change({1, 1}, 4, 1);
        change({4, 2}, 1, 4);
        team.run(*builder.build(), {}, request);
        CHECK_EQUAL(5, changes);
        most = 0;
    }
    CHECK_THROWS(std::invalid_argument, RunLimits().set({-1, 0}));
    CHECK_THROWS(std::invalid_argument, RunLimits().set({0, kMaxThreads + 1}));
}

struct Gauge {
    static inline std::atomic<int> inside{0};
    static inline std::atomic<int> most{0};
    static inline std::atomic<int> drawn{0};
    static inline std::atomic<bool> in_haste{false};

    static std::int32_t kernel(void* const*, const std::int64_t*, std::int64_t, void*) {
        const int now = ++inside;
        int before = most;
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        if (!in_haste) std::this_thread::sleep_for(300us);
        --inside;
        ++drawn;
        return 0;
    }
    // `steps` in a row, of 20 chunks each.
    static std::unique_ptr<Program> program(int steps) {
        most = drawn = 0;
        Builder builder;
        builder.buffers = {{BufferKind::arena, 0}};
        for (int i = 0; i < steps; ++i) {
            builder.add_kernel(&kernel, {}, 20);
            if (i > 0) builder.link(i - 1, i);
        }
        return builder.build();
    }
};

TREADLE_TEST(part_of_a_run_is_on_its_team_and_has_its_limits_as_they_change) {
    Team team("t", {4, 4});
    Team other("other", {4, 4});
    for (const bool is_part : {true, false}) {
        const auto inner = Gauge::program(400);
        Builder builder;
        builder.buffers.clear();
        builder.add_host([&](auto) {
            Request request;
            request.is_part = is_part;
            other.run(*inner, {}, request);
        });
        const auto outer = builder.build();
        Request request(Limits{1, 1});
        const auto own = std::make_shared<RunLimits>();
        request.own_limits = own;
        std::thread client([&] { team.run(*outer, {}, request); });
        wait_until([&] { return Gauge::drawn >= 200 && (is_part || Gauge::most > 1); });
        if (is_part) CHECK_EQUAL(1, Gauge::most.load());
        own->set({3, 1});
        wait_until([&] { return Gauge::drawn >= 400 && (!is_part || Gauge::most >= 3); });
        if (is_part) CHECK_EQUAL(3, Gauge::most.load());
        Gauge::in_haste = true;
        client.join();
        Gauge::in_haste = false;
        CHECK_EQUAL(8000, Gauge::drawn.load());
        CHECK(is_part == (other.threads() == 0));
    }
    const auto alone = Gauge::program(2);
    Request request;
    request.is_part = true;
    do team.run(*alone, {}, request);  // of no run: as any other
    while (Gauge::most < 2);
}

TREADLE_TEST(part_of_a_left_run_asks_for_no_limits_of_who_has_gone) {
    Team team("t", {3, 3});
    for (int round = 0; round < 20; ++round) {
        auto world = world_of(3, false, [&team](World& its) {
            Builder builder;
            builder.buffers.clear();
            builder.add_host([&its](auto) { its.dwell(); });
            const auto inner = builder.build();
            Request request;
            request.is_part = true;
            try {
                team.run(*inner, {}, request);
            } catch (const RunTimeout&) {
            } catch (const RunCancelled&) {
            }
        });
        {
            Request request = leaving(world, 5ms);
            request.own_limits = std::make_shared<RunLimits>();
            request.common_limits = std::make_shared<RunLimits>();
            CHECK_THROWS(RunTimeout, team.run(*world->program, {}, request));
        }
        for (int i = 1; i < 4; ++i) {
            RunLimits().set({i, i});  // has all runs look again
            std::this_thread::sleep_for(200us);
        }
        world->stop = true;
        wait_until([&] { return world->ended == world->inside; });
    }
    wait_until([&] { return team.status().abandoned == 0; });
}

TREADLE_TEST(the_end_waits_for_no_host_step_longer_than_its_grace) {
    Team team("t", {2, 2});
    auto left = world_of(1, true);
    CHECK_THROWS(RunTimeout, team.run(*left->program, {}, leaving(left, 300ms)));
    // In its caller's own thread, so that it cannot be abandoned.
    auto held = world_of(1, false, [](World& world) {
        ++world.inside;
        wait_until([&] { return world.stop.load(); });
    });
    std::thread caller([&] { CHECK_THROWS(std::runtime_error, team.run(*held->program, {}, leaving(held))); });
    wait_until([&] { return held->inside == 1; });
    const auto start = Clock::now();
    CHECK(shut_down_all_teams(30ms));
    CHECK(Clock::now() - start >= 30ms);
    CHECK_THROWS(std::runtime_error, team.run(*left->program, {}));
    held->stop = left->stop = true;
    caller.join();
}

TREADLE_TEST(the_end_leaves_nobody_behind_who_ends_in_time) {
    Team team("t", {2, 2});
    auto left = world_of(1, true);
    CHECK_THROWS(RunTimeout, team.run(*left->program, {}, leaving(left, 300ms)));
    left->stop = true;
    CHECK(!shut_down_all_teams(20s));
    CHECK_EQUAL(1, left->ended.load());
    CHECK_EQUAL(0u, team.threads());
}

}  // namespace treadle::testing
