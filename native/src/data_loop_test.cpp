// Loops in front of stages: carried values that grow, stacked values, the sizes that the stage is bound to.
#include "treadle/data_loop.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "treadle/check.h"
#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using Cells = std::vector<std::int64_t>;
using Shapes = std::vector<std::optional<std::vector<std::int64_t>>>;

// Writes whether the iteration (pointer 3) is below args[1], the args[0] cells of pointer 4, each one more, with the
// iteration behind them, and their number as an item.
std::int32_t grow(void* const* pointers, const std::int64_t* args, std::int64_t, void*) {
    const std::int64_t iteration = *static_cast<const std::int64_t*>(pointers[3]);
    *static_cast<std::uint8_t*>(pointers[0]) = iteration < args[1] ? 1 : 0;
    const auto* const cells = static_cast<const std::int64_t*>(pointers[4]);
    auto* const longer = static_cast<std::int64_t*>(pointers[1]);
    *std::transform(cells, cells + args[0], longer, [](auto cell) { return cell + 1; }) = iteration;
    *static_cast<std::int64_t*>(pointers[2]) = args[0];
    return 0;
}

// Writes the args[0] cells of pointer 1, then the args[1] cells of pointer 2.
std::int32_t join(void* const* pointers, const std::int64_t* args, std::int64_t, void*) {
    const auto* const first = static_cast<const std::int64_t*>(pointers[1]);
    const auto* const second = static_cast<const std::int64_t*>(pointers[2]);
    std::copy(second, second + args[1], std::copy(first, first + args[0], static_cast<std::int64_t*>(pointers[0])));
    return 0;
}

std::shared_ptr<const DataStage::Binding> binding_of(Kernel kernel, std::int64_t bound, std::vector<std::int64_t> order,
                                                     std::vector<std::int64_t> args, Shapes shapes) {
    StepSpec step;
    step.kernel = kernel;
    for (const std::int64_t number : order) step.pointers.push_back({number, 0});
    step.args = std::move(args);
    step.cost_ns = kCostly;
    Builder builder;
    builder.buffers.clear();
    for (std::int64_t i = 0; i < bound; ++i) builder.buffers.push_back({BufferKind::bound, i});
    builder.add(std::move(step));
    auto binding = std::make_shared<DataStage::Binding>();
    binding->program = builder.build();
    binding->shapes = std::move(shapes);
    return binding;
}

std::shared_ptr<DataStage> stage_of(std::vector<std::size_t> element_bytes, DataStage::Miss miss) {
    return std::make_shared<DataStage>(std::move(element_bytes), BufferPool::make(1 << 20, true), std::move(miss));
}

// A template of the body: its only symbol is the number of cells; the item has 1 cell.
DataStage::Source growing_body(std::int64_t last) {
    // Slots: 0: cells, 1: 1, 2: 0, 3: last, 4: cost, 5: cells + 1
    Binder binder(1, {1, 0, last, std::bit_cast<Slot>(kCostly)}, {{static_cast<std::int32_t>(BinderOp::add), 0}}, {0, 1});
    StepTemplate step;
    step.kernel = grow;
    for (const std::int64_t buffer : {2, 3, 4, 0, 1}) step.pointers.push_back({buffer, 2});
    step.args = {0, 3};
    step.chunks = 1;
    step.cost_ns = 4;
    std::vector<BufferSpec> buffers;
    for (std::int64_t i = 0; i < 5; ++i) buffers.push_back({BufferKind::bound, i});
    TemplateSpec spec = one_step(std::move(step), std::move(buffers));
    spec.scratch_bytes = 2;
    spec.requested = {5, 1};
    return {std::make_shared<const ProgramTemplate>(std::move(binder), std::move(spec)), {0}, {0, 1, 1}, {}};
}

// A program whose only step runs a loop from the cells that it is bound to, with a limit. Iteration number `last` is the
// last one; the item of iteration i has 1 cell, or from iteration `uneven` on 2.
// `by_template`: the body is bound by a template.
std::shared_ptr<Program> looping(std::int64_t last, std::int64_t first_size, std::int64_t uneven = 1000,
                                 bool by_template = false) {
    auto body = stage_of({1, 8, 8}, [=](std::span<const std::int64_t> sizes) {
        const std::int64_t item = sizes[0] - first_size < uneven ? 1 : 2;
        return binding_of(grow, 5, {2, 3, 4, 0, 1}, {sizes[0], last},
                          {Cells{}, Cells{sizes[0] + 1}, Cells{item}});
    });
    auto rest = stage_of({8}, [](std::span<const std::int64_t> sizes) {
        return binding_of(join, 4, {3, 0, 1}, {sizes[0], sizes[1]}, {Cells{sizes[0] + sizes[1]}});
    });
    if (by_template) body->add(growing_body(last));
    DataLoop loop;
    loop.body = std::move(body);
    loop.has_limit = true;
    loop.carried = {{true}};
    loop.stacked = {{1}};
    rest->set_ahead([loop = std::move(loop)](DataStage& stage, auto args, auto pointers) {
        run_data_loop(loop, stage, args, pointers);
    });
    return sized_step(make_data_stage(std::move(rest), {-1, first_size}, {}));
}

// Writes what grow() does, but of the carried value only the new cell: what is before it is there already.
std::int32_t append(void* const* pointers, const std::int64_t* args, std::int64_t, void*) {
    const std::int64_t iteration = *static_cast<const std::int64_t*>(pointers[3]);
    *static_cast<std::uint8_t*>(pointers[0]) = iteration < args[1] ? 1 : 0;
    static_cast<std::int64_t*>(pointers[1])[args[0]] = iteration;
    *static_cast<std::int64_t*>(pointers[2]) = args[0];
    return 0;
}

// A body for `size` cells that tells the shape of the carried value in its run: it copies the cells, each one more, and
// appends the iteration.
std::shared_ptr<const DataStage::Binding> telling(std::int64_t size, const std::shared_ptr<BufferPool>& pool) {
    Builder builder;
    builder.buffers.clear();
    for (std::int64_t i = 0; i < 5; ++i) builder.buffers.push_back({BufferKind::bound, i});
    StepSpec step;
    step.host = [=](std::span<void* const> pointers) {
        auto& longer = *static_cast<SizedMemory*>(pointers[1]);
        longer.shape = {size + 1};
        longer.memory.emplace(pool->acquire(static_cast<std::size_t>(8 * size + 8)));
        std::vector<void*> all(pointers.begin(), pointers.end());
        all[1] = longer.memory->data();
        const std::int64_t args[] = {size, 1000};
        grow(all.data(), args, 0, nullptr);
    };
    for (const std::int64_t number : {2, 3, 4, 0, 1}) step.pointers.push_back({number, 0});
    step.cost_ns = kCostly;
    builder.add(std::move(step));
    auto binding = std::make_shared<DataStage::Binding>();
    binding->program = builder.build();
    binding->shapes = {Cells{}, std::nullopt, Cells{1}};
    return binding;
}

// A program like that of looping(), whose body appends in place; but where there are `told` cells it tells the shape.
std::shared_ptr<Program> appending(std::int64_t first_size, std::int64_t told) {
    const auto pool = BufferPool::make(1 << 20, true);
    auto body = stage_of({1, 8, 8}, [=](std::span<const std::int64_t> sizes) {
        if (sizes[0] == told) return telling(sizes[0], pool);
        return binding_of(append, 5, {2, 3, 4, 0, 1}, {sizes[0], 1000}, {Cells{}, Cells{sizes[0] + 1}, Cells{1}});
    });
    auto rest = stage_of({8}, [](std::span<const std::int64_t> sizes) {
        return binding_of(join, 4, {3, 0, 1}, {sizes[0], sizes[1]}, {Cells{sizes[0] + sizes[1]}});
    });
    DataLoop loop;
    loop.body = std::move(body);
    loop.has_limit = true;
    loop.carried = {{true}};
    loop.stacked = {{1}};
    loop.appended = {true};
    rest->set_ahead([loop = std::move(loop)](DataStage& stage, auto args, auto pointers) {
        run_data_loop(loop, stage, args, pointers);
    });
    return sized_step(make_data_stage(std::move(rest), {-1, first_size}, {}));
}

// Returns what the loop gives for the cells: what they have become, then the items.
Cells run(Program& program, Team& team, Cells cells, std::int64_t limit) {
    return run_sized(program, team, &limit, cells.data());
}

}  // namespace

TREADLE_TEST_WORKERS(a_carried_value_grows_and_items_are_stacked) {
    Team team("t", {workers, workers});
    const auto program = looping(100, 2);
    for (int turn = 0; turn < 3; ++turn) {
        CHECK(run(*program, team, {10, 20}, 3) == Cells({13, 23, 2, 2, 2, 2, 3, 4}));
        CHECK(run(*program, team, {10, 20}, 0) == Cells({10, 20}));
        CHECK_EQUAL(std::size_t{2 + 90 + 90}, run(*program, team, {10, 20}, 90).size());
    }
}

TREADLE_TEST_WORKERS(a_template_is_bound_to_one_iteration_after_another) {
    Team team("t", {workers, workers});
    const auto program = looping(100, 2, 1000, true);
    for (int turn = 0; turn < 3; ++turn) {
        CHECK(run(*program, team, {10, 20}, 3) == Cells({13, 23, 2, 2, 2, 2, 3, 4}));
        CHECK(run(*program, team, {10, 20}, 0) == Cells({10, 20}));
        CHECK_EQUAL(std::size_t{2 + 90 + 90}, run(*program, team, {10, 20}, 90).size());
    }
}

TREADLE_TEST_WORKERS(a_carried_value_grows_in_its_memory) {
    Team team("t", {workers, workers});
    const auto program = appending(2, -1);
    Cells initial{10, 20};
    for (int turn = 0; turn < 3; ++turn) {
        CHECK(run(*program, team, initial, 3) == Cells({10, 20, 0, 1, 2, 2, 3, 4}));
        CHECK(run(*program, team, initial, 0) == Cells({10, 20}));
        const Cells many = run(*program, team, initial, 90);
        CHECK_EQUAL(std::size_t{2 + 90 + 90}, many.size());
        for (std::size_t i = 0; i < 90; ++i) CHECK_EQUAL(static_cast<std::int64_t>(i), many[2 + i]);
    }
    CHECK(run(*appending(0, -1), team, {}, 3) == Cells({0, 1, 2, 0, 1, 2}));
}

TREADLE_TEST_WORKERS(an_iteration_may_tell_the_size_of_a_value_that_grows_in_its_memory) {
    Team team("t", {workers, workers});
    for (const std::int64_t told : {2, 3, 4}) {
        Cells wanted{10, 20};
        for (std::int64_t i = 0; i < 4; ++i) {
            if (2 + i == told) std::ranges::for_each(wanted, [](auto& cell) { ++cell; });
            wanted.push_back(i);
        }
        for (const std::int64_t item : {2, 3, 4, 5}) wanted.push_back(item);
        CHECK(run(*appending(2, told), team, {10, 20}, 4) == wanted);
    }
}

TREADLE_TEST_WORKERS(loops_of_one_body_run_at_the_same_time) {
    Team team("t", {2, 2});
    const auto program = looping(100, 2, 1000, true);
    std::vector<std::thread> threads;
    for (int t = 0; t < workers; ++t) {
        threads.emplace_back([&] {
            for (std::int64_t limit = 0; limit < 12; ++limit) {
                CHECK_EQUAL(static_cast<std::size_t>(2 + 2 * limit), run(*program, team, {10, 20}, limit).size());
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
}

TREADLE_TEST(a_condition_ends_the_loop) {
    Team team("t", {1, 1});
    CHECK(run(*looping(1, 1), team, {5}, 1000) == Cells({7, 1, 1, 1, 2}));
}

TREADLE_TEST(items_of_unequal_shapes_end_the_run) {
    Team team("t", {1, 1});
    const auto program = looping(100, 1, 2);
    try {
        run(*program, team, {5}, 5);
        CHECK(false);
    } catch (const KernelFailure& failure) {
        CHECK_EQUAL(kItemsDiffer, failure.code);
        CHECK_EQUAL(program->id(), failure.program);
        CHECK_EQUAL(0, failure.step);
    }
    CHECK(run(*program, team, {5}, 1) == Cells({6, 0, 1}));
}

}  // namespace treadle::testing
