#include "treadle/program_template.h"

#include <bit>
#include <thread>

#include "treadle/check.h"
#include "treadle/context.h"
#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

// Writes `args[0]` cells from the first pointer on, then their sum to the second pointer.
std::int32_t sum_cells(void* const* pointers, const std::int64_t* args, std::int64_t, void*) {
    auto* const cells = static_cast<std::int64_t*>(pointers[0]);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < args[0]; ++i) cells[i] = i;
    for (std::int64_t i = 0; i < args[0]; ++i) sum += cells[i];
    *static_cast<std::int64_t*>(pointers[1]) = sum;
    return 0;
}

// n is the only symbol: a step on n cells in the arena, with one chunk, or none where n is 0.
ProgramTemplate cells_template() {
    // Slots: 0: n, 1: 0, 2: 8, 3: 1, 4: cost, 5: 8 n, 6: min(n, 1)
    Binder binder(1, {0, 8, 1, std::bit_cast<Slot>(100.0)},
                  {{static_cast<std::int32_t>(BinderOp::mul), 0}, {static_cast<std::int32_t>(BinderOp::min), 2}},
                  {0, 2, 0, 3});
    StepTemplate step;
    step.kernel = sum_cells;
    step.pointers = {{0, 1}, {1, 1}};
    step.args = {0};
    step.chunks = 6;
    step.cost_ns = 4;
    TemplateSpec spec = one_step(std::move(step), {{BufferKind::arena, 5}, {BufferKind::bound, 0}});
    spec.scratch_bytes = 1;
    spec.requested = {5};
    return {std::move(binder), std::move(spec)};
}

void bind_and_run(const ProgramTemplate& source, Team& team, std::int64_t n) {
    const std::int64_t symbols[] = {n};
    const auto program = source.bind(source.evaluate(symbols));
    std::int64_t sum = 0;
    void* bound[] = {&sum};
    team.run(*program, bound);
    CHECK_EQUAL(n * (n - 1) / 2, sum);
}

}  // namespace

TREADLE_TEST(a_template_is_bound_to_each_size) {
    const ProgramTemplate source = cells_template();
    Team team("test", {2, 2});
    for (const std::int64_t n : {5, 100'000, 0, 1}) bind_and_run(source, team, n);
    const std::int64_t symbols[] = {7};
    CHECK_EQUAL(56, source.requested(source.evaluate(symbols))[0]);
    const ProgramTemplate other = cells_template();
    CHECK_THROWS(std::invalid_argument, other.bind(source.evaluate(symbols)));
}

TREADLE_TEST_WORKERS(threads_bind_and_run_one_template_at_the_same_time) {
    const ProgramTemplate source = cells_template();
    Team team("test", {2, 2});
    std::vector<std::thread> threads;
    for (int t = 0; t < workers; ++t) {
        threads.emplace_back([&source, &team, t] {
            for (std::int64_t i = 0; i < 50; ++i) bind_and_run(source, team, 37 * ((i * 7 + t) % 11));
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TREADLE_TEST(programs_of_a_template_share_an_arena) {
    const ProgramTemplate source = cells_template();
    const auto bind = [&](std::int64_t n) {
        const std::int64_t symbols[] = {n};
        return source.bind(source.evaluate(symbols));
    };
    std::int64_t sum = 0;
    void* bound[] = {&sum};
    const auto lend = [&](Program& program) {
        auto context = program.acquire(bound);
        program.lend_arena(*context);
        const auto* const begin = context->arena.data();
        CHECK(context->arena.size() >= program.arena_bytes());
        CHECK_EQUAL(context->pointers[0], static_cast<void*>(context->arena.data()));
        program.release(std::move(context));
        return begin;
    };
    const auto large = bind(1000);
    const auto small = bind(10);
    const auto* const first = lend(*large);
    CHECK(lend(*small) == first);
    CHECK(lend(*large) == first);
    CHECK_EQUAL(1u, small->arenas());
    const auto larger = bind(4000);
    lend(*larger);
    lend(*large);
    CHECK_EQUAL(1u, large->arenas());
    large->trim();
    CHECK_EQUAL(0u, larger->arenas());
}

TREADLE_TEST(a_program_is_bound_to_one_size_after_another) {
    const ProgramTemplate source = cells_template();
    Team team("test", {2, 2});
    ProgramTemplate::Rebinding rebinding;
    const auto evaluate = [&](std::int64_t n) {
        const std::int64_t symbols[] = {n};
        return source.requested(source.evaluate(rebinding, symbols))[0];
    };
    CHECK_EQUAL(8 * 3, evaluate(3));
    const auto program = source.bind(rebinding);
    CHECK_EQUAL(source.program_id(), program->id());
    std::int64_t sum = -1;
    void* bound[] = {&sum};
    for (const std::int64_t n : {5, 100'000, 100'000, 0, 1}) {
        CHECK_EQUAL(8 * n, evaluate(n));
        CHECK(source.rebind(rebinding, *program));
        sum = -1;
        team.run(*program, bound);
        CHECK_EQUAL(n == 0 ? -1 : n * (n - 1) / 2, sum);
        const std::int64_t symbols[] = {n};
        CHECK_EQUAL(source.bind(source.evaluate(symbols))->arena_bytes(), program->arena_bytes());
    }
    CHECK_THROWS(BindingFailure, evaluate(std::int64_t{1} << 62));
    CHECK_EQUAL(8 * 2, evaluate(2));
    CHECK(source.rebind(rebinding, *program));
    team.run(*program, bound);
    CHECK_EQUAL(1, sum);
}

TREADLE_TEST(a_program_in_use_is_not_bound_to_other_sizes) {
    const ProgramTemplate source = cells_template();
    ProgramTemplate::Rebinding rebinding;
    const std::int64_t few[] = {3}, many[] = {1000};
    source.evaluate(rebinding, few);
    const auto program = source.bind(rebinding);
    std::int64_t sum = 0;
    void* bound[] = {&sum};
    auto context = program->acquire(bound);
    source.evaluate(rebinding, many);
    CHECK(!source.rebind(rebinding, *program));
    CHECK_EQUAL(64u, program->arena_bytes());
    program->release(std::move(context));
    CHECK(source.rebind(rebinding, *program));
    CHECK_EQUAL(8000u, program->arena_bytes());
}

}  // namespace treadle::testing
