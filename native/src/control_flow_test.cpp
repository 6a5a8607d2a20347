// Branches whose bodies are programs.
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

TREADLE_TEST_WORKERS(branches_nest_30_deep) {
    Team team("t", {workers, workers});
    std::shared_ptr<Program> body = adding(1).program;
    for (int depth = 0; depth < 30; ++depth) body = program_of(make_branch(0, {body, {0, 1}}, {body, {1, 0}}), 2);
    Numbers given{1}, results{};
    void* bound[] = {given.data(), results.data()};
    team.run(*body, bound);
    CHECK_EQUAL(2, results[0]);
}

}  // namespace treadle::testing
