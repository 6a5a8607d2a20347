// Workers that hold slots and only wait: parked nested callers, and steps that wait for runs in other threads.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

std::unique_ptr<Program> host_steps(int count, const std::function<void()>& step) {
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < count; ++i) builder.add_host([step](auto) { step(); });
    return builder.build();
}

// Waits for a run of `program` on a new thread, like a step that waits for a run in the background.
void wait_for_run(Team& team, Program& program) {
    std::thread client([&] { team.run(program, {}); });
    const Resting resting;
    client.join();
}

// Runs `step` on a compute worker of `inner`, in a run that is called from a step on `outer`. The nested caller has
// nothing to do meanwhile but wait.
void run_beside_nested_caller(Team& outer, Team& inner, const std::function<void()>& step) {
    const auto caller = std::this_thread::get_id();
    std::atomic<bool> is_helped{false};
    const auto shared = host_steps(2, [&] {
        if (std::this_thread::get_id() == caller) {
            while (!is_helped) std::this_thread::yield();
        } else {
            is_helped = true;
            step();
        }
    });
    const auto around = host_steps(1, [&] { inner.run(*shared, {}); });
    outer.run(*around, {});
}

}  // namespace

TREADLE_TEST(a_step_may_wait_for_a_run_on_its_own_team_of_one_slot) {
    Team team("t", {1, 1});
    std::atomic<int> runs{0};
    const auto leaf = host_steps(1, [&] { ++runs; });
    const auto waits = host_steps(1, [&] { wait_for_run(team, *leaf); });
    const auto waits_too = host_steps(1, [&] { wait_for_run(team, *waits); });
    for (int i = 0; i < 20; ++i) team.run(*waits_too, {});
    CHECK_EQUAL(20, runs.load());
    CHECK_EQUAL(0, team.status().slots);
}

// The nested caller and its helper hold the two slots from before the limits fell.
TREADLE_TEST(limits_may_fall_while_a_nested_caller_idles_and_its_helper_waits) {
    for (const Limits fallen : {Limits{1, 1}, Limits{4, 1}, Limits{1, 2}}) {
        Team team("t", {2, 2});
        std::atomic<int> runs{0};
        const auto leaf = host_steps(3, [&] { ++runs; });
        run_beside_nested_caller(team, team, [&] {
            team.set_limits(fallen);
            wait_for_run(team, *leaf);
        });
        CHECK_EQUAL(3, runs.load());
    }
}

TREADLE_TEST(a_nested_caller_that_idles_in_another_team_frees_its_own_team) {
    for (const auto spin : {std::chrono::nanoseconds(kDefaultSpin), 0ns}) {
        Team outer("outer", {1, 1}, spin);
        Team inner("inner", {2, 2}, spin);
        std::atomic<int> runs{0};
        const auto leaf = host_steps(3, [&] { ++runs; });
        run_beside_nested_caller(outer, inner, [&] { wait_for_run(outer, *leaf); });
        CHECK_EQUAL(3, runs.load());
    }
}

// A nested caller that waits executes nothing, but its run holds the permit, so no other run begins an op.
TREADLE_TEST(an_idle_nested_caller_does_not_free_a_second_permit) {
    Team team("t", {3, 1}, 0ns);
    std::atomic<int> inside{0};
    std::atomic<int> most{0};
    const auto step = [&] {
        raise_to(most, ++inside);
        std::this_thread::sleep_for(50us);
        --inside;
    };
    const auto leaf = host_steps(4, step);
    const auto nested = host_steps(2, [&] { team.run(*leaf, {}); });
    std::vector<std::thread> clients;
    for (int c = 0; c < 4; ++c) {
        clients.emplace_back([&] {
            for (int i = 0; i < 30; ++i) team.run(i % 2 == 0 ? *nested : *leaf, {});
        });
    }
    for (std::thread& client : clients) client.join();
    CHECK_EQUAL(1, most.load());
}

TREADLE_TEST(runs_that_wait_for_runs_end_while_limits_change) {
    Team one("one", {2, 2});
    Team two("two", {1, 2});
    std::atomic<bool> stop{false};
    std::thread changer([&] {
        std::mt19937 random(1);
        while (!stop) {
            for (Team* team : {&one, &two}) {
                team->set_limits({1 + static_cast<int>(random() % 3), 1 + static_cast<int>(random() % 3)});
            }
            std::this_thread::sleep_for(100us);
        }
    });
    std::atomic<int> leaves{0};
    const auto leaf = host_steps(2, [&] { ++leaves; });
    const auto waits = host_steps(2, [&] { wait_for_run(one, *leaf); });
    const auto nested = host_steps(2, [&] { two.run(*waits, {}); });
    const auto mixed = host_steps(2, [&] {
        one.run(*leaf, {});
        wait_for_run(two, *nested);
    });
    std::vector<std::thread> clients;
    for (int c = 0; c < 4; ++c) {
        clients.emplace_back([&, c] {
            for (int i = 0; i < 12; ++i) (c % 2 == 0 ? one : two).run(*mixed, {});
        });
    }
    for (std::thread& client : clients) client.join();
    stop = true;
    changer.join();
    CHECK_EQUAL(4 * 12 * 2 * (2 + 2 * 2 * 2), leaves.load());
    CHECK_EQUAL(0, one.status().slots + two.status().slots);
}

}  // namespace treadle::testing
