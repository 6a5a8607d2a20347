// Branches and loops whose bodies are programs.
#include "treadle/control_flow.h"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "treadle/team.h"
#include "treadle/test_programs.h"
#include "treadle/worker.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

// Writes pointer 1 plus an argument to pointer 0, each chunk one element.
std::int32_t add(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void*) {
    static_cast<std::int64_t*>(pointers[0])[chunk] = static_cast<const std::int64_t*>(pointers[1])[chunk] + args[0];
    return 0;
}

std::int32_t fail(void* const*, const std::int64_t*, std::int64_t, void*) { return 7; }

StepSpec step_of(Kernel kernel, std::vector<PointerSpec> pointers, std::vector<std::int64_t> args,
                 std::int64_t chunks = 1) {
    StepSpec step;
    step.kernel = kernel;
    step.pointers = std::move(pointers);
    step.args = std::move(args);
    step.chunks = chunks;
    step.cost_ns = kCostly;
    return step;
}

// Returns a program of one step, whose bound buffers are numbered like its pointers.
std::shared_ptr<Program> program_of(StepSpec step, std::size_t buffers) {
    Builder builder;
    builder.buffers.clear();
    for (std::size_t i = 0; i < buffers; ++i) builder.buffers.push_back({BufferKind::bound, static_cast<std::int64_t>(i)});
    builder.add(std::move(step));
    return builder.build();
}

std::shared_ptr<Program> program_of(HostCall host, std::size_t buffers) {
    StepSpec step;
    step.host = std::move(host);
    for (std::size_t i = 0; i < buffers; ++i) step.pointers.push_back({static_cast<std::int64_t>(i), 0});
    step.cost_ns = kCostly;
    return program_of(std::move(step), buffers);
}

constexpr std::int64_t kElements = 40;
using Numbers = std::array<std::int64_t, kElements>;

// Adds `number` to pointer 0 and writes pointer 1.
Body adding(std::int64_t number) {
    return {program_of(step_of(add, {{1, 0}, {0, 0}}, {number}, kElements), 2), {1, 2}};
}

// One iteration of a loop with one carried and one stacked value, and the bound buffers of its body: iteration,
// carried; condition, carried, item. Adds 1, stacks what it carries, and goes on below `most`.
std::int32_t count(void* const* pointers, const std::int64_t* args, std::int64_t, void*) {
    const auto before = *static_cast<const std::int64_t*>(pointers[1]);
    *static_cast<std::int64_t*>(pointers[4]) = before;
    *static_cast<std::int64_t*>(pointers[3]) = before + 1;
    *static_cast<std::uint8_t*>(pointers[2]) = before + 1 < args[0];
    return 0;
}

LoopSpec counting(std::int64_t most) {
    LoopSpec spec;
    spec.body = program_of(step_of(count, {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}}, {most}), 5);
    spec.has_limit = spec.has_condition = spec.decides = true;
    spec.carried = {sizeof(std::int64_t)};
    spec.stacked = {sizeof(std::int64_t)};
    return spec;
}

struct Counted {
    std::int64_t result = -1, iterations = -1;
    std::vector<std::int64_t> stacked = std::vector<std::int64_t>(16, -1);
};

Counted count_from(Team& team, LoopSpec spec, std::int64_t initial, std::int64_t limit, bool condition) {
    Counted counted;
    std::int64_t spare = -1;
    const auto program = program_of(make_loop(std::move(spec)), 7);
    void* bound[] = {&counted.result, counted.stacked.data(), &counted.iterations, &spare, &limit, &condition, &initial};
    team.run(*program, bound);
    return counted;
}

// Returns a loop that never ends and carries nothing.
std::shared_ptr<Program> endless(HostCall body) {
    LoopSpec spec;
    spec.body = program_of(std::move(body), 1);
    return program_of(make_loop(std::move(spec)), 1);
}

void run_endless(Team& team, Program& program, const Request& request) {
    std::int64_t iterations = 0;
    void* bound[] = {&iterations};
    team.run(program, bound, request);
}

// Returns a branch whose body waits for the end of its run.
std::shared_ptr<Program> waiting(std::atomic<bool>& began) {
    const auto body = program_of(
        [&began](auto) {
            began = true;
            for (;;) {
                check_run();
                std::this_thread::sleep_for(100us);
            }
        },
        0);
    return program_of(make_branch(0, {body, {}}, {body, {}}), 1);
}

}  // namespace

TREADLE_TEST_WORKERS(a_branch_runs_the_body_that_its_condition_names) {
    Team team("t", {workers, 1});
    const auto program = program_of(make_branch(0, adding(10), adding(20)), 3);
    Numbers given;
    for (std::size_t i = 0; i < given.size(); ++i) given[i] = static_cast<std::int64_t>(i);
    for (const bool condition : {true, false, true}) {
        bool decides = condition;
        Numbers results{};
        void* bound[] = {&decides, given.data(), results.data()};
        team.run(*program, bound);
        for (std::size_t i = 0; i < given.size(); ++i) CHECK_EQUAL(given[i] + (condition ? 10 : 20), results[i]);
    }
}

TREADLE_TEST_WORKERS(a_loop_carries_and_stacks_values) {
    Team team("t", {workers, 1});
    for (const std::int64_t limit : {0, 1, 2, 5, 8}) {
        const Counted counted = count_from(team, counting(1000), 3, limit, true);
        CHECK_EQUAL(3 + limit, counted.result);
        CHECK_EQUAL(limit, counted.iterations);
        for (std::int64_t i = 0; i < 16; ++i) {
            CHECK_EQUAL(i < limit ? 3 + i : -1, counted.stacked[static_cast<std::size_t>(i)]);
        }
    }
}

TREADLE_TEST(a_loop_ends_when_its_condition_is_false) {
    Team team("t", {1, 1});
    CHECK_EQUAL(7, count_from(team, counting(7), 3, 16, true).result);
    CHECK_EQUAL(3, count_from(team, counting(7), 3, 16, false).result);
}

TREADLE_TEST(a_loop_makes_no_more_iterations_than_there_are_items) {
    Team team("t", {1, 1});
    LoopSpec spec = counting(1000);
    spec.most = 4;
    CHECK_EQUAL(7, count_from(team, std::move(spec), 3, 16, true).result);
}

TREADLE_TEST(a_loop_takes_sliced_and_captured_values) {
    Team team("t", {2, 1});
    LoopSpec spec;
    // iteration, carried, item, captured; carried
    spec.body = program_of(
        [](std::span<void* const> pointers) {
            const auto number = [&](std::size_t at) { return *static_cast<std::int64_t*>(pointers[at]); };
            *static_cast<std::int64_t*>(pointers[4]) = number(1) * number(3) + number(2) + 100 * number(0);
        },
        5);
    spec.carried = {8};
    spec.sliced = {8};
    spec.captured = 1;
    spec.most = 3;
    const auto program = program_of(make_loop(std::move(spec)), 6);
    std::int64_t result = 0, iterations = 0, spare = 0, initial = 1, factor = 2;
    std::int64_t items[] = {5, 6, 7};
    void* bound[] = {&result, &iterations, &spare, &initial, items, &factor};
    team.run(*program, bound);
    CHECK_EQUAL(2 * (2 * (2 * 1 + 5) + 106) + 207, result);
}

TREADLE_TEST(a_failure_in_a_body_names_its_program) {
    Team team("t", {2, 2});
    const auto body = program_of(step_of(fail, {}, {}), 0);
    const auto program = program_of(make_branch(0, {body, {}}, {body, {}}), 1);
    bool decides = true;
    void* bound[] = {&decides};
    try {
        team.run(*program, bound);
        CHECK(false && "the failure was lost");
    } catch (const KernelFailure& failure) {
        CHECK_EQUAL(body->id(), failure.program);
        CHECK_EQUAL(7, failure.code);
    }
}

TREADLE_TEST_WORKERS(a_deadline_ends_a_run_inside_a_body) {
    Team team("t", {workers, workers});
    std::atomic<bool> began{false};
    bool decides = true;
    void* bound[] = {&decides};
    Request request;
    request.deadline = Clock::now() + 20ms;
    CHECK_THROWS(RunTimeout, team.run(*waiting(began), bound, request));
}

TREADLE_TEST_WORKERS(a_token_ends_a_run_inside_a_body) {
    Team team("t", {workers, workers});
    std::atomic<bool> began{false};
    bool decides = true;
    void* bound[] = {&decides};
    Request request;
    request.token = std::make_shared<CancelToken>();
    std::thread other([&] {
        while (!began) std::this_thread::sleep_for(100us);
        request.token->cancel();
    });
    CHECK_THROWS(RunCancelled, team.run(*waiting(began), bound, request));
    other.join();
}

TREADLE_TEST(a_run_is_polled_inside_a_body) {
    Team team("t", {1, 1});
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 400; ++i) builder.add_host([](auto) { std::this_thread::sleep_for(1ms); });
    const std::shared_ptr<Program> body = builder.build();
    bool decides = true;
    void* bound[] = {&decides};
    Request request;
    request.poll = [] { throw std::runtime_error("polled"); };
    const auto program = program_of(make_branch(0, {body, {}}, {body, {}}), 1);
    CHECK_EQUAL(std::string("polled"), CHECK_THROWS(std::runtime_error, team.run(*program, bound, request)));
}

TREADLE_TEST(sizes_of_a_loop_must_not_be_negative) {
    LoopSpec spec = counting(1);
    spec.stacked = {-1};
    CHECK_THROWS(std::invalid_argument, make_loop(std::move(spec)));
}

TREADLE_TEST_WORKERS(an_endless_loop_stops_at_its_deadline) {
    Team team("t", {workers, workers});
    const auto program = endless([](auto) {});
    Request request;
    request.deadline = Clock::now() + 20ms;
    CHECK_THROWS(RunTimeout, run_endless(team, *program, request));
}

TREADLE_TEST_WORKERS(an_endless_loop_stops_when_its_run_is_cancelled) {
    Team team("t", {workers, workers});
    Request request;
    request.token = std::make_shared<CancelToken>();
    std::atomic<int> iterations{0};
    const auto program = endless([&](auto) { ++iterations; });
    std::thread other([&] {
        while (iterations < 100) std::this_thread::sleep_for(100us);
        request.token->cancel();
    });
    CHECK_THROWS(RunCancelled, run_endless(team, *program, request));
    other.join();
}

TREADLE_TEST(a_loop_of_short_iterations_is_polled) {
    Team team("t", {1, 1});
    Request request;
    request.poll = [] { throw std::runtime_error("polled"); };
    const auto program = endless([](auto) {});
    CHECK_THROWS(std::runtime_error, run_endless(team, *program, request));
}

TREADLE_TEST_WORKERS(branches_nest_30_deep) {
    Team team("t", {workers, workers});
    std::shared_ptr<Program> body = adding(1).program;
    for (int depth = 0; depth < 30; ++depth) body = program_of(make_branch(0, {body, {0, 1}}, {body, {1, 0}}), 2);
    Numbers given{1}, results{};
    void* bound[] = {given.data(), results.data()};
    team.run(*body, bound);
    CHECK_EQUAL(2, results[0]);
}

TREADLE_TEST(loops_nest_30_deep) {
    Team team("t", {2, 2});
    LoopSpec spec;
    // iteration, carried; carried
    spec.body = program_of(
        [](std::span<void* const> pointers) {
            *static_cast<std::int64_t*>(pointers[2]) = *static_cast<std::int64_t*>(pointers[1]) + 1;
        },
        3);
    spec.carried = {8};
    for (int depth = 0; depth < 30; ++depth) {
        spec.most = depth % 10 == 0 ? 2 : 1;
        // Step: result, count, spare, initial. Bound: iteration, carried; carried.
        Builder builder;
        builder.buffers.clear();
        for (int i = 0; i < 3; ++i) builder.buffers.push_back({BufferKind::bound, i});
        for (int i = 0; i < 2; ++i) builder.buffers.push_back({BufferKind::arena, 64 * i});
        builder.arena_bytes = 128;
        StepSpec step;
        step.host = make_loop(spec);
        step.pointers = {{2, 0}, {3, 0}, {4, 0}, {1, 0}};
        step.cost_ns = kCostly;
        builder.add(std::move(step));
        spec.body = builder.build();
    }
    std::int64_t iteration = 0, initial = 5, result = 0;
    void* bound[] = {&iteration, &initial, &result};
    team.run(*spec.body, bound);
    CHECK_EQUAL(5 + 8, result);
}

// Several runs at once of a loop whose body has ops that workers share: every result is right.
TREADLE_TEST_WORKERS(loops_of_shared_ops_run_at_once) {
    Team team("t", {workers, workers});
    Builder builder;  // bound: iteration, carried; carried
    builder.buffers.clear();
    for (int i = 0; i < 3; ++i) builder.buffers.push_back({BufferKind::bound, i});
    builder.buffers.push_back({BufferKind::arena, 0});
    builder.arena_bytes = sizeof(Numbers);
    builder.add(step_of(add, {{3, 0}, {1, 0}}, {1}, kElements));
    builder.add(step_of(add, {{2, 0}, {3, 0}}, {2}, kElements));
    builder.link(0, 1);
    LoopSpec spec;
    spec.body = builder.build();
    spec.carried = {sizeof(Numbers)};
    spec.most = 25;
    const auto program = program_of(make_loop(std::move(spec)), 4);
    std::vector<std::thread> callers;
    std::atomic<int> wrong{0};
    for (int caller = 0; caller < 3; ++caller) {
        callers.emplace_back([&, caller] {
            for (int round = 0; round < 4; ++round) {
                Numbers initial{}, result{}, spare{};
                initial[7] = caller;
                std::int64_t iterations = 0;
                void* bound[] = {result.data(), &iterations, spare.data(), initial.data()};
                team.run(*program, bound);
                for (std::size_t i = 0; i < result.size(); ++i) wrong += result[i] != initial[i] + 3 * 25;
                wrong += iterations != 25;
            }
        });
    }
    for (std::thread& caller : callers) caller.join();
    CHECK_EQUAL(0, wrong.load());
}

}  // namespace treadle::testing
