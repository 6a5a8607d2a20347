// Abandoned runs and detached workers, limits that change during a run, parts of runs, and shutdown.
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

// RunState is what a run's tasks use. The sanitizers check that its memory exists until the last task has ended.
struct RunState {
    std::unique_ptr<Program> program;
    std::thread::id caller = std::this_thread::get_id();
    std::atomic<int> inside{0};
    std::atomic<int> ended{0};
    std::atomic<bool> stop{false};
    std::vector<int> memory = std::vector<int>(100, 7);

    // A step that lasts until `stop` on any thread but the caller's, and reads the memory at its end.
    void wait_for_stop() {
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

using SharedState = std::shared_ptr<RunState>;

// Returns the state of a program of `count` tasks, each of one host step.
SharedState state_of(int count, bool blocking, const std::function<void(RunState&)>& step = &RunState::wait_for_stop) {
    auto state = std::make_shared<RunState>();
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < count; ++i) builder.add_host([raw = state.get(), step](auto) { step(*raw); }, blocking);
    state->program = builder.build();
    return state;
}

Request abandonable(const SharedState& state, Clock::duration limit = 1h) {
    Request request;
    if (limit < 1h) request.deadline = Clock::now() + limit;
    request.keep_alive = [state = std::weak_ptr(state)] { return state.lock(); };
    return request;
}

template <typename Condition>
void wait_until(const Condition& condition) {
    while (!condition()) std::this_thread::sleep_for(100us);
}

struct Interrupt : std::runtime_error {
    Interrupt() : std::runtime_error("interrupt") {}
};

// Calls `attempt` with one limit after another until it returns true: on a busy machine a step needs more time to begin.
void with_longer_limits(const std::function<bool(Clock::duration)>& attempt) {
    Clock::duration limit = 20ms;
    while (!attempt(limit)) limit *= 2;
}

// Runs the program of a state that `make` returns until its deadline, which a step is inside of. Returns the state.
SharedState time_out(Team& team, const std::function<SharedState()>& make) {
    SharedState state;
    with_longer_limits([&](Clock::duration limit) {
        state = make();
        CHECK_THROWS(RunTimeout, team.run(*state->program, {}, abandonable(state, limit)));
        if (state->inside > 0) return true;
        state->stop = true;
        wait_until([&] { return team.status().abandoned == 0; });
        return false;
    });
    return state;
}

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

TREADLE_TEST_WORKERS(a_timeout_abandons_a_blocking_step) {
    Team team("t", {workers, workers});
    SharedState state = time_out(team, [] { return state_of(1, true); });
    const std::weak_ptr<RunState> watched = state;
    RunState& inside = *state;
    CHECK_EQUAL(0, inside.ended.load());
    CHECK_EQUAL(1, team.status().abandoned);
    CHECK_EQUAL(0, team.status().runs);
    run_again(team);
    state.reset();
    CHECK(!watched.expired());
    inside.stop = true;
    wait_until([&] { return watched.expired(); });
    wait_until([&] { return team.status().abandoned == 0; });
    CHECK_EQUAL(0, team.status().slots);
    run_again(team);
}

TREADLE_TEST(a_detached_worker_keeps_only_its_slot_until_its_step_ends) {
    for (const Limits limits : {Limits{2, 2}, Limits{4, 2}}) {
        Team team("t", limits);
        auto state = state_of(2, false);
        const std::weak_ptr<RunState> watched = state;
        Request request = abandonable(state);
        request.token = std::make_shared<CancelToken>();
        std::thread other([&] {
            wait_until([&] { return state->inside == 1; });
            request.token->cancel();
        });
        CHECK_THROWS(RunCancelled, team.run(*state->program, {}, request));
        other.join();
        CHECK_EQUAL(1, team.status().abandoned);
        CHECK_EQUAL(1, team.status().slots);
        for (int i = 0; i < 5; ++i) run_again(team);
        team.set_limits({1, 1});
        run_again(team);
        RunState& inside = *state;
        state.reset();
        inside.stop = true;
        wait_until([&] { return watched.expired(); });
        wait_until([&] { return team.status().abandoned == 0; });
        CHECK_EQUAL(0, team.status().slots);
        team.set_limits(limits);
        for (int i = 0; i < 5; ++i) run_again(team);
    }
}

TREADLE_TEST(an_exception_from_the_poll_abandons_steps_too) {
    Team team("t", {2, 2});
    auto state = state_of(1, true);
    static std::atomic<const RunState*> polled{nullptr};
    polled = state.get();
    Request request = abandonable(state);
    request.poll = [] {
        if (polled.load()->inside > 0) throw Interrupt();
    };
    CHECK_THROWS(Interrupt, team.run(*state->program, {}, request));
    CHECK_EQUAL(1, team.status().abandoned);
    state->stop = true;
}

TREADLE_TEST(a_failed_run_waits_for_steps_until_the_deadline_and_throws_the_failure) {
    Team team("t", {2, 2});
    with_longer_limits([&](Clock::duration limit) {
        auto state = std::make_shared<RunState>();
        Builder builder;
        builder.buffers.clear();
        builder.add_host([raw = state.get()](auto) { raw->wait_for_stop(); }, true);
        builder.add_host([raw = state.get()](auto) {
            wait_until([&] { return raw->inside == 1 || raw->stop; });
            throw Interrupt();
        });
        state->program = builder.build();
        const auto start = Clock::now();
        bool has_failed = false;
        try {
            team.run(*state->program, {}, abandonable(state, limit));
        } catch (const Interrupt&) {
            has_failed = true;
        } catch (const RunTimeout&) {
        }
        CHECK(Clock::now() - start >= limit);
        CHECK_EQUAL(0, state->ended.load());
        state->stop = true;
        wait_until([&] { return team.status().abandoned == 0; });
        return has_failed;
    });
}

TREADLE_TEST(kernels_have_returned_when_run_returns) {
    static std::atomic<int> in_kernels{0};
    const Kernel doze = [](void* const*, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
        ++in_kernels;
        std::this_thread::sleep_for(5ms);
        --in_kernels;
        return 0;
    };
    Team team("t", {4, 4});
    for (int i = 0; i < 5; ++i) {
        auto state = std::make_shared<RunState>();
        Builder builder;
        builder.buffers = {{BufferKind::arena, 0}};
        for (int k = 0; k < 4; ++k) builder.add_kernel(doze, {}, 1000);
        builder.add_host([raw = state.get()](auto) { raw->wait_for_stop(); }, true);
        state->program = builder.build();
        CHECK_THROWS(RunTimeout, team.run(*state->program, {}, abandonable(state, 60ms)));
        CHECK_EQUAL(0, in_kernels.load());
        CHECK_EQUAL(0, state->ended.load());
        state->stop = true;
    }
}

TREADLE_TEST(a_run_without_keep_alive_waits_for_its_steps) {
    Team team("t", {2, 2});
    with_longer_limits([&](Clock::duration limit) {
        auto state = state_of(1, true);
        Request request = abandonable(state, limit);
        request.keep_alive = nullptr;
        std::thread other([&] {
            std::this_thread::sleep_for(limit + 40ms);
            state->stop = true;
        });
        CHECK_THROWS(RunTimeout, team.run(*state->program, {}, request));
        CHECK_EQUAL(state->inside.load(), state->ended.load());
        other.join();
        return state->inside > 0;
    });
}

TREADLE_TEST(an_exception_in_an_abandoned_step_is_dropped) {
    Team team("t", {2, 2});
    const SharedState state = time_out(team, [] {
        auto made = std::make_shared<RunState>();
        Builder builder;
        builder.buffers.clear();
        builder.add_host([raw = made.get()](auto) {
            raw->wait_for_stop();
            throw Interrupt();
        }, true);
        builder.add_host([raw = made.get()](auto) { raw->ended += 100; });
        builder.link(0, 1);
        made->program = builder.build();
        return made;
    });
    state->stop = true;
    wait_until([&] { return team.status().abandoned == 0; });
    CHECK_EQUAL(1, state->ended.load());
    run_again(team);
}

TREADLE_TEST(runs_inside_an_abandoned_step_end_and_may_be_abandoned) {
    Team team("t", {3, 3});
    Team other_team("u", {2, 2});
    for (Team* inner_team : {&team, &other_team}) {
        auto inner = state_of(2, false);
        auto outer = std::make_shared<RunState>();
        std::atomic<bool> inner_has_ended{false};
        Builder builder;
        builder.buffers.clear();
        builder.add_host([&, raw = outer.get()](auto) {
            inner->caller = std::this_thread::get_id();
            CHECK_THROWS(RunCancelled, inner_team->run(*inner->program, {}, abandonable(inner)));
            inner_has_ended = true;
            raw->ended = 1;
        }, true);
        outer->program = builder.build();
        Request request = abandonable(outer);
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

TREADLE_TEST(a_team_may_be_destroyed_before_its_detached_workers_end) {
    SharedState state;
    {
        Team team("t", {2, 2});
        state = time_out(team, [] { return state_of(2, true); });
    }
    const std::weak_ptr<RunState> watched = state;
    RunState& inside = *state;
    state.reset();
    inside.stop = true;
    wait_until([&] { return watched.expired(); });
}

TREADLE_TEST(the_last_detached_worker_may_destroy_the_team) {
    with_longer_limits([](Clock::duration limit) {
        auto team = std::make_shared<Team>("t", Limits{2, 2});
        auto state = state_of(1, true);
        const std::weak_ptr<Team> watched = team;
        Request request = abandonable(state, limit);
        request.keep_alive = [&] { return std::make_shared<std::pair<SharedState, std::shared_ptr<Team>>>(state, team); };
        CHECK_THROWS(RunTimeout, team->run(*state->program, {}, request));
        const bool was_inside = state->inside > 0;
        team.reset();
        CHECK(!was_inside || !watched.expired());
        state->stop = true;
        wait_until([&] { return watched.expired(); });
        return was_inside;
    });
}

TREADLE_TEST_WORKERS(a_run_may_be_abandoned_at_any_moment) {
    Team team("t", {workers, workers});
    std::mt19937 random(static_cast<unsigned>(workers));
    std::atomic<int> alive{0};
    const auto nap = [](RunState& state) {
        std::this_thread::sleep_for(std::chrono::microseconds(state.memory[3] * 40));
    };
    RandomDag healthy(3, 20);
    for (int i = 0; i < 60; ++i) {
        auto made = state_of(6, i % 3 == 0, nap);
        ++alive;
        const SharedState state(made.get(), [&, made](RunState*) { --alive; });
        try {
            team.run(*state->program, {}, abandonable(state, std::chrono::microseconds(random() % 1500)));
        } catch (const RunTimeout&) {
        }
        if (i % 4 == 0) healthy.run(team);
    }
    wait_until([&] { return alive == 0 && team.status().abandoned == 0; });
    CHECK_EQUAL(0, team.status().slots);
    healthy.run(team);
}

TREADLE_TEST(run_limits_change_runs_in_progress) {
    static std::atomic<int> inside{0};
    static std::atomic<int> most{0};
    static std::atomic<int> expected{0};
    const Kernel doze = [](void* const*, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
        raise_to(most, ++inside);
        do std::this_thread::sleep_for(200us);
        while (most < expected);  // on a busy machine helpers come late
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
        const auto change = [&](Limits to, int allowed, int next) {
            const auto task = builder.add_host([&, to, allowed, next](auto) {
                CHECK(most <= allowed);
                most = 0;
                expected = std::min(next, 2);
                limits->set(to);
                ++changes;
            });
            builder.link(task - 1, task);
            builder.link(task, builder.add_kernel(doze, {}, 400));
        };
        builder.add_kernel(doze, {}, 400);
        expected = 2;
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

    static std::int32_t kernel(void* const*, const std::int64_t*, std::int64_t, void*) {
        raise_to(most, ++inside);
        std::this_thread::sleep_for(300us);
        --inside;
        ++drawn;
        return 0;
    }
    // A chain of `steps` steps of 20 chunks each.
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

TREADLE_TEST(a_part_of_a_run_uses_its_team_and_follows_its_limits) {
    Team team("t", {4, 4});
    Team other("other", {4, 4});
    for (const bool is_part : {true, false}) {
        const auto inner = Gauge::program(100'000);  // more than a case takes
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
        request.token = std::make_shared<CancelToken>();
        std::thread client([&] { CHECK_THROWS(RunCancelled, team.run(*outer, {}, request)); });
        wait_until([&] { return Gauge::drawn >= 200 && (is_part || Gauge::most > 1); });
        if (is_part) CHECK_EQUAL(1, Gauge::most.load());
        own->set({3, 1});
        wait_until([&] { return Gauge::drawn >= 400 && (!is_part || Gauge::most >= 3); });
        if (is_part) CHECK_EQUAL(3, Gauge::most.load());
        request.token->cancel();
        client.join();
        CHECK(is_part == (other.threads() == 0));
    }
    const auto alone = Gauge::program(2);
    Request request;
    request.is_part = true;
    do team.run(*alone, {}, request);  // outside a run, a part is like any other run
    while (Gauge::most < 2);
}

TREADLE_TEST(a_part_of_an_abandoned_run_does_not_read_its_callers_limits) {
    Team team("t", {3, 3});
    for (int round = 0; round < 20; ++round) {
        auto state = state_of(3, false, [&team](RunState& its) {
            Builder builder;
            builder.buffers.clear();
            builder.add_host([&its](auto) { its.wait_for_stop(); });
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
            Request request = abandonable(state, 5ms);
            request.own_limits = std::make_shared<RunLimits>();
            request.common_limits = std::make_shared<RunLimits>();
            CHECK_THROWS(RunTimeout, team.run(*state->program, {}, request));
        }
        for (int i = 1; i < 4; ++i) {
            RunLimits().set({i, i});  // has all runs read their limits again
            std::this_thread::sleep_for(200us);
        }
        state->stop = true;
        wait_until([&] { return state->ended == state->inside; });
    }
    wait_until([&] { return team.status().abandoned == 0; });
}

TREADLE_TEST(shut_down_waits_for_host_steps_no_longer_than_the_grace_period) {
    Team team("t", {2, 2});
    const SharedState left = time_out(team, [] { return state_of(1, true); });
    // The step runs on its caller's thread, so the run cannot be abandoned.
    auto held = state_of(1, false, [](RunState& state) {
        ++state.inside;
        wait_until([&] { return state.stop.load(); });
    });
    std::thread caller([&] { CHECK_THROWS(std::runtime_error, team.run(*held->program, {}, abandonable(held))); });
    wait_until([&] { return held->inside == 1; });
    const auto start = Clock::now();
    CHECK(shut_down_all_teams(30ms));
    CHECK(Clock::now() - start >= 30ms);
    CHECK_THROWS(std::runtime_error, team.run(*left->program, {}));
    held->stop = left->stop = true;
    caller.join();
}

TREADLE_TEST(shut_down_leaves_no_thread_whose_step_ends_in_time) {
    Team team("t", {2, 2});
    const SharedState left = time_out(team, [] { return state_of(1, true); });
    left->stop = true;
    CHECK(!shut_down_all_teams(20s));
    CHECK_EQUAL(1, left->ended.load());
    CHECK_EQUAL(0u, team.threads());
}

}  // namespace treadle::testing
