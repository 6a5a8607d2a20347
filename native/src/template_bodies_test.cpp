// Branches and loops of templates: their bodies are bound with the template around them.
#include "treadle/template_bodies.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "treadle/check.h"
#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using Cells = std::vector<std::int64_t>;

constexpr std::int64_t kMostCells = 1000;
constexpr std::int64_t kMostIterations = 10;

// The slots of all templates here, whose only symbol is n.
enum SlotNumber : std::int64_t { kN, kZero, kOne, kCost, kEight, kMost, kIterations, kBytes, kSpare, kTooMany, kFits };

Binder binder() {
    const auto op = [](BinderOp kind, std::int32_t first) {
        return Binder::Operation{static_cast<std::int32_t>(kind), first};
    };
    return {1,
            {0, 1, std::bit_cast<Slot>(kCostly), 8, kMostCells, kMostIterations},
            {op(BinderOp::mul, 0), op(BinderOp::sub, 2), op(BinderOp::is_negative, 4), op(BinderOp::logical_not, 5)},
            {kN, kEight, kMost, kN, kSpare, kTooMany}};
}

// A template of one step for n cells, which serves up to kMostCells. Its pointers are the `bound` buffers, then
// n cells in the arena if it has an `arena`.
std::shared_ptr<ProgramTemplate> template_of(Kernel kernel, std::int64_t bound, std::vector<std::int64_t> args,
                                             std::int64_t chunks, bool arena) {
    StepTemplate step;
    step.kernel = kernel;
    step.args = std::move(args);
    step.chunks = chunks;
    step.cost_ns = kCost;
    std::vector<BufferSpec> buffers;
    for (std::int64_t i = 0; i < bound; ++i) buffers.push_back({BufferKind::bound, i});
    if (arena) buffers.push_back({BufferKind::arena, kBytes});
    for (std::size_t i = 0; i < buffers.size(); ++i) step.pointers.push_back({static_cast<std::int64_t>(i), kZero});
    TemplateSpec spec = one_step(std::move(step), std::move(buffers));
    spec.scratch_bytes = kZero;
    spec.guards = {kFits};
    return std::make_shared<ProgramTemplate>(binder(), std::move(spec));
}

// Writes a cell of pointer 0, doubled and with the second argument added, to pointer 1; through the arena.
std::int32_t double_and_add(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void*) {
    auto* const between = static_cast<std::int64_t*>(pointers[2]);
    between[chunk] = 2 * static_cast<const std::int64_t*>(pointers[0])[chunk];
    static_cast<std::int64_t*>(pointers[1])[chunk] = between[chunk] + args[1];
    return 0;
}

TemplateBody doubling(std::int64_t added) { return {template_of(double_and_add, 2, {kN, added}, kN, true), {}, {}}; }

// A template whose step is made by `maker` and has so many bound buffers.
std::shared_ptr<ProgramTemplate> around(std::int64_t bound, std::vector<std::int64_t> args) {
    return template_of(nullptr, bound, std::move(args), kOne, false);
}

std::shared_ptr<Program> program_of(const std::shared_ptr<ProgramTemplate>& source, const MakeHost& maker, std::int64_t n) {
    return TemplateBody{source, {}, {maker}}.bind({&n, 1});
}

Cells counting(std::int64_t n) {
    Cells cells(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<std::int64_t>(i);
    return cells;
}

// What a branch makes of n cells: it adds 8 if the condition holds, else 1,000.
void check_branch(Program& program, Team& team, std::int64_t n, bool condition) {
    Cells given = counting(n);
    Cells found(given.size());
    void* bound[] = {&condition, given.data(), found.data()};
    team.run(program, bound);
    for (std::size_t i = 0; i < given.size(); ++i) CHECK_EQUAL(2 * given[i] + (condition ? 8 : kMostCells), found[i]);
}

// One iteration: adds an item times the captured factor to what it carries, stacks that, and goes on while the captured
// limit allows it. Pointers: iteration, carried, item, captured (factor, limit); goes on, carried, item.
std::int32_t accumulate(void* const* pointers, const std::int64_t* args, std::int64_t, void*) {
    const auto* const captured = static_cast<const std::int64_t*>(pointers[3]);
    for (std::int64_t i = 0; i < args[0]; ++i) {
        const auto cell = [&](std::size_t pointer) -> std::int64_t& { return static_cast<std::int64_t*>(pointers[pointer])[i]; };
        cell(5) = cell(6) = cell(1) + captured[0] * cell(2);
    }
    *static_cast<std::uint8_t*>(pointers[4]) = *static_cast<const std::int64_t*>(pointers[0]) + 1 < captured[1];
    return 0;
}

MakeHost accumulating() {
    LoopCounts counts;
    counts.has_limit = counts.decides = true;
    counts.carried = counts.stacked = counts.sliced = counts.captured = 1;
    return loop_maker(1, counts, {template_of(accumulate, 7, {kN}, kOne, false), {}, {}});
}

// A template whose step is a loop of accumulate().
std::shared_ptr<ProgramTemplate> around_loop() { return around(8, {kN, kIterations, kBytes, kBytes, kBytes}); }

// Runs a loop on n cells that may make `limit` iterations and has one less than `least` of its own.
void check_loop(Program& program, Team& team, std::int64_t n, std::int64_t limit, std::int64_t least) {
    const auto cells = static_cast<std::size_t>(n);
    Cells initial = counting(n);
    Cells items(cells * kMostIterations);
    for (std::size_t i = 0; i < items.size(); ++i) items[i] = static_cast<std::int64_t>(i % 7);
    Cells result(cells);
    Cells spare(cells);
    Cells stacked(items.size(), -1);
    std::int64_t made = -1;
    std::array<std::int64_t, 2> captured{3, least};
    void* bound[] = {result.data(), stacked.data(), &made, spare.data(), &limit, initial.data(), items.data(), captured.data()};
    team.run(program, bound);
    const std::int64_t expected = std::min({limit, least, kMostIterations});
    CHECK_EQUAL(expected, made);
    Cells carried = initial;
    for (std::int64_t k = 0; k < expected; ++k) {
        for (std::size_t i = 0; i < cells; ++i) {
            const std::size_t at = static_cast<std::size_t>(k) * cells + i;
            carried[i] += captured[0] * items[at];
            CHECK_EQUAL(carried[i], stacked[at]);
        }
    }
    CHECK(carried == result);
    for (std::size_t i = static_cast<std::size_t>(expected) * cells; i < stacked.size(); ++i) CHECK_EQUAL(-1, stacked[i]);
}

}  // namespace

TREADLE_TEST_WORKERS(a_branch_of_a_template_runs_bodies_of_its_sizes) {
    Team team("t", {workers, workers});
    const auto source = around(3, {kN});
    const MakeHost maker = branch_maker(1, 0, {1, 2}, doubling(kEight), doubling(kMost));
    for (const std::int64_t n : {5, 1, 1000}) {
        const auto program = program_of(source, maker, n);
        for (const bool condition : {true, false, true}) check_branch(*program, team, n, condition);
    }
}

TREADLE_TEST_WORKERS(a_loop_of_a_template_runs_a_body_of_its_sizes) {
    Team team("t", {workers, workers});
    const auto source = around_loop();
    const MakeHost maker = accumulating();
    for (const std::int64_t n : {3, 1, 100}) {
        const auto program = program_of(source, maker, n);
        check_loop(*program, team, n, 0, 100);
        check_loop(*program, team, n, 4, 100);
        check_loop(*program, team, n, 100, 3);
        check_loop(*program, team, n, 100, 100);
    }
}

TREADLE_TEST_WORKERS(bodies_of_templates_have_branches_of_their_own) {
    Team team("t", {workers, workers});
    const TemplateBody inner{around(3, {kN}), {}, {branch_maker(1, 0, {1, 2}, doubling(kEight), doubling(kMost))}};
    const auto program = program_of(around(3, {kN}), branch_maker(1, 0, {0, 1, 2}, inner, inner), 20);
    for (const bool condition : {true, false}) check_branch(*program, team, 20, condition);
}

TREADLE_TEST(a_body_that_does_not_serve_the_sizes_refuses_them) {
    const MakeHost branch = branch_maker(1, 0, {1, 2}, doubling(kEight), doubling(kMost));
    const MakeHost loop = accumulating();
    CHECK_THROWS(BindingFailure, branch({kMostCells + 1}));
    CHECK_THROWS(BindingFailure, loop({kMostCells + 1, kMostIterations, 8, 8, 8}));
}

TREADLE_TEST(a_loop_of_a_template_refuses_negative_sizes) {
    CHECK_THROWS(std::invalid_argument, accumulating()({1, kMostIterations, 8, -8, 8}));
}

TREADLE_TEST(trimming_a_template_frees_the_memory_of_bodies) {
    Team team("t", {1, 1});
    const TemplateBody yes = doubling(kEight);
    const auto program = program_of(around(3, {kN}), branch_maker(1, 0, {1, 2}, yes, doubling(kMost)), 9);
    for (int turn = 0; turn < 2; ++turn) check_branch(*program, team, 9, true);
    CHECK_EQUAL(1u, yes.program_template->arena_allocations());
    yes.program_template->trim();
    check_branch(*program, team, 9, true);
    CHECK_EQUAL(2u, yes.program_template->arena_allocations());
}

}  // namespace treadle::testing
