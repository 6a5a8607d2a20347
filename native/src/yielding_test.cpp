// Bodies of branches and loops give their slot to runs that come first, between two ops of theirs.
#include <atomic>
#include <chrono>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "treadle/control_flow.h"
#include "treadle/team.h"
#include "treadle/test_programs.h"
#include "treadle/worker.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

// Returns a chain of steps. Like all programs here it has one bound address, of the number of an iteration.
std::shared_ptr<Program> host_steps(int count, const std::function<void()>& step, double cost_ns = kCostly) {
    Builder builder;
    for (int i = 0; i < count; ++i) {
        const auto task = builder.add_host([step](auto) { step(); });
        builder.steps.back().cost_ns = cost_ns;
        if (i > 0) builder.link(task - 1, task);
    }
    return builder.build();
}

// Returns a program of one loop that runs `body` so often.
std::shared_ptr<Program> loop(std::shared_ptr<Program> body, std::int64_t most, double cost_ns = kCostly) {
    LoopSpec spec;
    spec.body = std::move(body);
    spec.most = most;
    StepSpec step;
    step.host = make_loop(std::move(spec));
    step.pointers = {{1, 0}};
    step.cost_ns = cost_ns;
    Builder builder;
    builder.buffers.push_back({BufferKind::arena, 0});
    builder.add(std::move(step));
    return builder.build();
}

void run(Team& team, Program& program, const Request& request) {
    std::int64_t number = 0;
    void* bound[] = {&number};
    team.run(program, bound, request);
}

void run(Team& team, Program& program, int priority = 0) {
    Request request;
    request.priority = priority;
    run(team, program, request);
}

// Counts steps, and waits at some of them until as many other runs wait for the team.
class Steps {
public:
    explicit Steps(Team& team) : team_(team) {}

    void step() {
        if (++count_ == kWaitAt) {
            is_at_wait_ = true;
            while (team_.status().waiting < 1) std::this_thread::sleep_for(50us);
        }
    }
    bool is_at_wait() const { return is_at_wait_; }
    // Blocks until a step waits.
    void await() const {
        while (!is_at_wait_) std::this_thread::sleep_for(50us);
    }
    int count() const { return count_; }

    static constexpr int kWaitAt = 6;

private:
    Team& team_;
    std::atomic<int> count_{0};
    std::atomic<bool> is_at_wait_{false};
};

// Returns how many steps of `busy` have begun when a run of this priority is served that is called in step kWaitAt.
int steps_before(Team& team, Steps& steps, Program& busy, int priority, double cost_ns = kCostly,
                 int busy_priority = 0) {
    int before = 0;
    const auto urgent = host_steps(1, [&] { before = steps.count(); }, cost_ns);
    std::thread client([&] { run(team, busy, busy_priority); });
    steps.await();
    run(team, *urgent, priority);
    client.join();
    return before;
}

// Checks that a run of higher priority waits for only one step of a loop, on the parallel path, which costly bodies
// take, and on the serial path.
void check_it_waits_for_one_step(int steps_of_body, int iterations) {
    Team team("t", {1, 1});
    for (const double cost : {kCostly, 10.0}) {
        Steps steps(team);
        const auto busy = loop(host_steps(steps_of_body, [&] { steps.step(); }, cost), iterations);
        CHECK_EQUAL(Steps::kWaitAt, steps_before(team, steps, *busy, 1));
        CHECK_EQUAL(steps_of_body * iterations, steps.count());
    }
    CHECK_EQUAL(0, team.status().slots);
}

}  // namespace

TREADLE_TEST(a_run_of_higher_priority_waits_for_one_iteration) { check_it_waits_for_one_step(1, 200); }

TREADLE_TEST(a_run_of_higher_priority_waits_for_one_op_of_a_body) { check_it_waits_for_one_step(200, 1); }

TREADLE_TEST(a_run_of_higher_priority_waits_for_one_iteration_of_loops_30_deep) {
    Team team("t", {1, 1});
    Steps steps(team);
    auto busy = host_steps(1, [&] { steps.step(); });
    for (int depth = 0; depth < 30; ++depth) busy = loop(busy, depth % 6 == 0 ? 3 : 1);
    CHECK_EQUAL(Steps::kWaitAt, steps_before(team, steps, *busy, 1));
    CHECK_EQUAL(243, steps.count());
}

TREADLE_TEST(a_run_of_equal_priority_waits_while_the_turn_of_a_loop_lasts) {
    Team team("t", {1, 1});
    Steps steps(team);
    const auto busy = loop(host_steps(1, [&] { steps.step(); }), 20, 1e10);
    CHECK_EQUAL(20, steps_before(team, steps, *busy, 0, 2e10));
}

// The loop takes far longer than estimated, as loops do whose iterations nobody has counted.
TREADLE_TEST(a_long_loop_gives_turns_to_runs_of_its_priority) {
    Team team("t", {1, 1});
    Steps steps(team);
    const auto step = [&] {
        steps.step();
        std::this_thread::sleep_for(1ms);
    };
    const auto busy = loop(host_steps(1, step), 300);
    CHECK(steps_before(team, steps, *busy, 0) < 300);
}

TREADLE_TEST(a_part_has_the_priority_of_its_run) {
    Team team("t", {1, 1});
    Steps steps(team);
    const auto busy = loop(host_steps(1, [&] { steps.step(); }), 50);
    CHECK_EQUAL(Steps::kWaitAt, steps_before(team, steps, *busy, -4, kCostly, -5));
}

// The step around the run in front holds a lock that the other run needs.
TREADLE_TEST(a_run_inside_a_step_that_may_hold_locks_keeps_its_slot) {
    Team team("t", {1, 1});
    Steps steps(team);
    std::mutex mutex;
    const auto inner = loop(host_steps(1, [&] { steps.step(); }), 50);
    const auto busy = host_steps(1, [&] {
        const std::lock_guard lock(mutex);
        run(team, *inner);
    });
    int before = 0;
    const auto urgent = host_steps(1, [&] {
        const std::lock_guard lock(mutex);
        before = steps.count();
    });
    std::thread client([&] { run(team, *busy); });
    steps.await();
    run(team, *urgent, 1);
    client.join();
    CHECK_EQUAL(50, before);
}

namespace {

// Runs a loop without end that must give its slot away, and ends that run, by a deadline after `limit` unless that is 0.
// Returns whether the run was in its loop when the deadline came.
bool loop_without_slot_ends(Clock::duration limit) {
    const bool has_deadline = limit > 0s;
    Team team("t", {1, 1});
    Steps steps(team);
    const auto busy = loop(host_steps(1, [&] { steps.step(); }), 1'000'000'000);
    Request request;
    request.token = std::make_shared<CancelToken>();
    std::atomic<bool> has_ended{false};
    if (has_deadline) request.deadline = Clock::now() + limit;
    std::thread client([&] {
        if (has_deadline) {
            CHECK_THROWS(RunTimeout, run(team, *busy, request));
        } else {
            CHECK_THROWS(RunCancelled, run(team, *busy, request));
        }
        has_ended = true;
    });
    while (!steps.is_at_wait() && !has_ended) std::this_thread::sleep_for(50us);
    const auto urgent = host_steps(1, [&] {
        if (!has_deadline) request.token->cancel();
        while (!has_ended) std::this_thread::sleep_for(50us);
    });
    run(team, *urgent, 1);
    client.join();
    CHECK_EQUAL(0, team.status().slots);
    run(team, *host_steps(3, [] {}));
    return steps.is_at_wait();
}

}  // namespace

TREADLE_TEST(a_loop_that_waits_for_a_slot_ends_with_its_run) {
    CHECK(loop_without_slot_ends(0s));
    for (Clock::duration limit = 50ms; !loop_without_slot_ends(limit);) limit *= 2;  // a busy machine needs more time
}

// Runs of all priorities, with nested loops, on few slots: no more ops at once than there are permits, every result
// right, and nothing is left.
TREADLE_TEST_WORKERS(runs_with_loops_of_all_priorities_end) {
    for (const int inter_op : {1, workers}) {
        Team team("t", {workers, inter_op});
        std::atomic<int> inside{0}, most{0}, count{0};
        const auto step = [&] {
            raise_to(most, ++inside);
            std::this_thread::sleep_for(20us);
            --inside;
            ++count;
        };
        const auto leaf = host_steps(2, step);
        const auto flat = loop(host_steps(2, step, 10), 6);
        const auto nested = loop(loop(loop(leaf, 2), 3), 2);
        std::vector<std::thread> clients;
        for (int client = 0; client < 4; ++client) {
            clients.emplace_back([&, client] {
                std::mt19937 random(static_cast<unsigned>(client));
                for (int i = 0; i < 5; ++i) run(team, client % 2 == 0 ? *nested : *flat, static_cast<int>(random() % 4) - 1);
            });
        }
        for (std::thread& client : clients) client.join();
        CHECK_EQUAL(2 * 5 * 24 + 2 * 5 * 12, count.load());
        CHECK(most <= inter_op);
        CHECK_EQUAL(0, team.status().slots);
    }
}

TREADLE_TEST_WORKERS(runs_with_loops_end_while_limits_change_and_runs_are_cancelled) {
    Team team("t", {workers, workers});
    std::vector<RandomDag> dags;
    for (std::uint64_t seed = 0; seed < 3; ++seed) dags.emplace_back(seed, 12);
    const auto body = host_steps(2, [] { std::this_thread::sleep_for(10us); });
    const auto nested = loop(loop(body, 4), 5);
    const auto around = [&](int client, int i) {
        Request request;
        request.priority = (client + i) % 3;
        request.token = std::make_shared<CancelToken>();
        std::thread other;
        if (i % 3 == 0) other = std::thread([token = request.token] { token->cancel(); });
        try {
            if (client % 2 == 0) {
                run(team, *nested, request);
            } else {
                dags[static_cast<std::size_t>(i % 3)].run(team, {});
            }
        } catch (const RunCancelled&) {
        }
        if (other.joinable()) other.join();
    };
    while_limits_change(team, 3, [&] {
        std::vector<std::thread> clients;
        for (int client = 0; client < 4; ++client) {
            clients.emplace_back([&, client] {
                for (int i = 0; i < 9; ++i) around(client, i);
            });
        }
        for (std::thread& client : clients) client.join();
    });
    CHECK_EQUAL(0, team.status().slots);
    run(team, *nested);
}

}  // namespace treadle::testing
