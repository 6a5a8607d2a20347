// Control of runs from outside: tokens, deadlines, priorities, caps, spinning, pinning.
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "treadle/affinity.h"
#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

std::int32_t doze(void* const*, const std::int64_t* args, std::int64_t, void*) {
    std::this_thread::sleep_for(std::chrono::microseconds(args[0]));
    return 0;
}

// Returns a program of days of work, in chunks of 200 us: a run that is not ended hangs.
std::unique_ptr<Program> endless() {
    Builder builder;
    builder.buffers = {{BufferKind::arena, 0}};
    builder.add_kernel(doze, {200}, 1'000'000'000);
    return builder.build();
}

std::unique_ptr<Program> one_step(HostCall host) {
    Builder builder;
    builder.buffers.clear();
    builder.add_host(std::move(host));
    return builder.build();
}

std::atomic<int> workers_inside{0};
std::atomic<int> workers_at_once{0};  // the largest number inside since this was set to 0
std::atomic<int> chunks_done{0};

// A chunk that records how many workers are inside it at once.
std::int32_t gauge(void* const*, const std::int64_t*, std::int64_t, void*) {
    raise_to(workers_at_once, ++workers_inside);
    std::this_thread::sleep_for(300us);
    --workers_inside;
    ++chunks_done;
    return 0;
}

void wait_for(const std::atomic<bool>& flag) {
    while (!flag) std::this_thread::sleep_for(100us);
}

// Holder occupies the team with a run on a thread of its own, from construction until release().
class Holder {
public:
    explicit Holder(Team& team)
        : program_(one_step([this](auto) {
              inside_ = true;
              wait_for(stop_);
          })),
          thread_([this, &team] { team.run(*program_, {}); }) {
        wait_for(inside_);
    }
    void release() {
        stop_ = true;
        thread_.join();
    }

private:
    std::atomic<bool> inside_{false};
    std::atomic<bool> stop_{false};
    const std::unique_ptr<Program> program_;
    std::thread thread_;
};

Request until(Clock::duration limit) {
    Request request;
    request.deadline = Clock::now() + limit;
    return request;
}

}  // namespace

TREADLE_TEST_WORKERS(a_deadline_ends_a_run_and_leaves_the_team_usable) {
    Team team("t", {workers, workers});
    const auto program = endless();
    RandomDag healthy(1, 30);
    for (int i = 0; i < 3; ++i) {
        const auto start = Clock::now();
        CHECK_THROWS(RunTimeout, team.run(*program, {}, until(20ms)));
        CHECK(Clock::now() - start >= 20ms);
        healthy.run(team);
    }
    CHECK_THROWS(RunTimeout, team.run(*program, {}, until(-1ms)));
}

TREADLE_TEST(a_deadline_ends_a_queued_run) {
    Team team("t", {1, 1});
    Holder holder(team);
    const auto program = endless();
    CHECK_THROWS(RunTimeout, team.run(*program, {}, until(10ms)));
    holder.release();
}

TREADLE_TEST_WORKERS(a_token_ends_current_and_later_runs) {
    Team team("t", {workers, workers});
    const auto program = endless();
    Request request;
    request.token = std::make_shared<CancelToken>();
    std::vector<std::thread> callers;
    std::atomic<int> ended{0};
    for (int i = 0; i < 3; ++i) {
        callers.emplace_back([&] {
            CHECK_THROWS(RunCancelled, team.run(*program, {}, request));
            ++ended;
        });
    }
    std::this_thread::sleep_for(20ms);
    CHECK_EQUAL(0, ended.load());
    request.token->cancel();
    for (std::thread& caller : callers) caller.join();
    CHECK_THROWS(RunCancelled, team.run(*program, {}, request));
    RandomDag(1, 30).run(team);
}

TREADLE_TEST(a_token_may_be_cancelled_at_any_moment) {
    Team team("t", {3, 2});
    RandomDag dag(3, 40);
    for (int i = 0; i < 150; ++i) {
        Request request;
        request.token = std::make_shared<CancelToken>();
        std::thread other([&] {
            std::this_thread::sleep_for(std::chrono::microseconds(i * 3));
            request.token->cancel();
        });
        try {
            dag.run(team, request);
        } catch (const RunCancelled&) {
            CHECK(request.token->cancelled());
        }
        other.join();
        dag.run(team);
    }
}

TREADLE_TEST_WORKERS(a_nested_run_ends_with_the_run_around_it) {
    Team team("t", {workers, workers});
    const auto inner = endless();
    const auto outer = one_step([&](auto) { team.run(*inner, {}); });
    const auto outermost = one_step([&](auto) { team.run(*outer, {}); });
    CHECK_THROWS(RunTimeout, team.run(*outermost, {}, until(20ms)));
    Request request;
    request.token = std::make_shared<CancelToken>();
    std::thread other([&] {
        std::this_thread::sleep_for(20ms);
        request.token->cancel();
    });
    CHECK_THROWS(RunCancelled, team.run(*outermost, {}, request));
    other.join();
}

TREADLE_TEST(queued_runs_start_by_priority_and_then_by_arrival) {
    Team team("t", {1, 1});
    Holder holder(team);
    std::mutex mutex;
    std::vector<int> order;
    std::vector<std::unique_ptr<Program>> programs;
    std::vector<std::thread> callers;
    const int priorities[] = {0, 5, -3, 5, 0, 9};
    for (int i = 0; i < 6; ++i) {
        programs.push_back(one_step([&, i](auto) {
            const std::lock_guard lock(mutex);
            order.push_back(i);
        }));
        Program& program = *programs.back();
        callers.emplace_back([&team, &program, request = [&] {
            Request r;
            r.priority = priorities[i];
            return r;
        }()] { team.run(program, {}, request); });
        while (team.status().waiting < i + 1) std::this_thread::sleep_for(100us);
    }
    holder.release();
    for (std::thread& caller : callers) caller.join();
    CHECK(order == (std::vector<int>{5, 1, 3, 0, 4, 2}));
}

TREADLE_TEST(a_run_of_higher_priority_overtakes_a_long_run) {
    Team team("t", {1, 1});
    std::atomic<int> steps{0};
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 400; ++i) {
        builder.add_host([&](auto) {
            ++steps;
            while (steps == 1 && team.status().waiting == 0) std::this_thread::sleep_for(100us);
        });
    }
    const auto longer = builder.build();
    std::thread other([&] { team.run(*longer, {}); });
    while (steps == 0) std::this_thread::sleep_for(100us);
    Request urgent;
    urgent.priority = 1;
    int before = 0;
    const auto shorter = one_step([&](auto) { before = steps; });
    team.run(*shorter, {}, urgent);
    other.join();
    CHECK_EQUAL(1, before);
    CHECK_EQUAL(400, steps.load());
}

TREADLE_TEST(a_cap_limits_the_workers_of_a_step) {
    Team team("t", {6, 6});
    for (const int cap : {1, 2, 3, 0}) {
        workers_at_once = 0;
        Builder builder;
        builder.buffers = {{BufferKind::arena, 0}};
        builder.add_kernel(gauge, {}, 60);
        builder.steps[0].max_workers = cap;
        const auto program = builder.build();
        const int expected = cap == 0 ? 4 : cap;
        do team.run(*program, {});
        while (workers_at_once < expected);  // on a busy machine workers come late
        CHECK(cap == 0 || workers_at_once == cap);
    }
    Builder builder;
    builder.add_kernel(gauge, {});
    builder.steps[0].max_workers = -1;
    CHECK_THROWS(std::invalid_argument, builder.build());
}

TREADLE_TEST(caps_take_effect_during_a_run) {
    workers_at_once = 0;
    chunks_done = 0;
    constexpr int kSteps = 100'000;  // more than a case takes
    constexpr int kChunks = 20;
    Builder builder;
    builder.buffers = {{BufferKind::arena, 0}};
    for (int i = 0; i < kSteps; ++i) {
        builder.add_kernel(gauge, {}, kChunks);
        if (i > 0) builder.link(i - 1, i);
    }
    for (StepSpec& step : builder.steps) step.max_workers = 1;
    const auto program = builder.build();
    Team team("t", {4, 1});
    Request request;
    request.token = std::make_shared<CancelToken>();
    std::thread client([&] { CHECK_THROWS(RunCancelled, team.run(*program, {}, request)); });
    const auto wait_for = [&](int chunks) {
        while (chunks_done < chunks) std::this_thread::sleep_for(100us);
    };
    wait_for(kChunks * 10);
    CHECK_EQUAL(1, workers_at_once.load());
    program->set_caps(std::vector<int>(kSteps, 3));
    while (workers_at_once < 3) std::this_thread::sleep_for(100us);  // on a busy machine workers come late
    wait_for(chunks_done + 2 * kChunks);
    CHECK_EQUAL(3, workers_at_once.load());
    program->set_caps(std::vector<int>(kSteps, 1));
    wait_for(chunks_done + 2 * kChunks);  // the op in progress keeps its workers
    workers_at_once = 0;
    wait_for(chunks_done + 10 * kChunks);
    CHECK_EQUAL(1, workers_at_once.load());
    program->set_caps(std::vector<int>(kSteps, 0));
    while (workers_at_once <= 3) std::this_thread::sleep_for(100us);
    request.token->cancel();
    client.join();
    CHECK_THROWS(std::invalid_argument, program->set_caps(std::vector<int>(kSteps - 1, 1)));
    std::vector<int> wrong(kSteps, 1);
    wrong.back() = -1;
    CHECK_THROWS(std::invalid_argument, program->set_caps(wrong));
    CHECK(program->max_workers(0) > 4);
}

TREADLE_TEST(many_threads_may_change_caps_at_once) {
    Team team("t", {4, 3});
    RandomDag dag(11, 80, 400);
    std::atomic<bool> over{false};
    std::vector<std::thread> setters;
    for (int each = 0; each < 2; ++each) {
        setters.emplace_back([&, each] {
            for (int cap = each; !over; cap = (cap + 1) % 5) {
                dag.program().set_caps(std::vector<int>(dag.program().steps().size(), cap));
                std::this_thread::sleep_for(50us);
            }
        });
    }
    for (int i = 0; i < 60; ++i) dag.run(team);
    over = true;
    for (auto& setter : setters) setter.join();
}

TREADLE_TEST(set_spin_reaches_spinning_workers) {
    Team team("t", {3, 3}, 24h);
    RandomDag dag(5, 60);
    for (int i = 0; i < 5; ++i) dag.run(team);
    while (team.status().spinning == 0) dag.run(team);
    team.set_spin(0ns);
    while (team.status().spinning > 0) std::this_thread::sleep_for(100us);
    dag.run(team);
    while (team.status().spinning > 0) std::this_thread::sleep_for(100us);  // a worker may still be waking up
}

#if defined(__linux__)

TREADLE_TEST(set_cpus_pins_compute_workers_only) {
    const std::vector<int> mine = cpus_of_this_thread();
    const int one = mine.back();
    Team team("t", {4, 4});
    team.set_cpus({one});
    std::mutex mutex;
    std::atomic<int> wrong{0};
    std::atomic<int> workers{0};
    Builder builder;
    builder.buffers.clear();
    const auto caller = std::this_thread::get_id();
    std::vector<int> expected{one};
    for (int i = 0; i < 40; ++i) {
        builder.add_host([&](auto) {
            std::this_thread::sleep_for(300us);
            const bool is_caller = std::this_thread::get_id() == caller;
            if (!is_caller) ++workers;
            if (cpus_of_this_thread() != (is_caller ? mine : expected)) ++wrong;
        });
    }
    const auto program = builder.build();
    do team.run(*program, {});
    while (workers == 0);
    CHECK_EQUAL(0, wrong.load());
    team.set_cpus({});
    expected = mine;
    team.run(*program, {});
    CHECK_EQUAL(0, wrong.load());
    CHECK(cpus_of_this_thread() == mine);
}

#endif

}  // namespace treadle::testing
