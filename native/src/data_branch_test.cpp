// Branches in front of stages: the sizes that they tell, and what they must not change.
#include "treadle/data_branch.h"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "treadle/check.h"
#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using Cells = std::vector<std::int64_t>;

// Writes the args[0] cells of pointer 1, each args[1] more, to pointer 0.
std::int32_t add(void* const* pointers, const std::int64_t* args, std::int64_t, void*) {
    for (std::int64_t i = 0; i < args[0]; ++i) {
        static_cast<std::int64_t*>(pointers[0])[i] = static_cast<const std::int64_t*>(pointers[1])[i] + args[1];
    }
    return 0;
}

// A stage that adds `more` to as many cells as `cells` says for its sizes.
template <typename CellsOf>
std::shared_ptr<DataStage> adding(std::int64_t more, CellsOf cells) {
    return std::make_shared<DataStage>(
        std::vector<std::size_t>{8}, BufferPool::make(1 << 20, true), [=](std::span<const std::int64_t> sizes) {
            const std::int64_t count = cells(sizes);
            StepSpec step;
            step.kernel = add;
            step.pointers = {{1, 0}, {0, 0}};
            step.args = {count, more};
            step.cost_ns = kCostly;
            Builder builder;
            builder.buffers = {{BufferKind::bound, 0}, {BufferKind::bound, 1}};
            builder.add(std::move(step));
            auto binding = std::make_shared<DataStage::Binding>();
            binding->program = builder.build();
            binding->shapes = {Cells{count}};
            return binding;
        });
}

// A program whose step takes all of its cells and adds 1, or all but one and adds 2; what follows adds 10.
std::shared_ptr<Program> branching(std::int64_t cells, std::int64_t expected) {
    auto rest = adding(10, [](auto sizes) { return sizes[1]; });
    DataBranch branch;
    branch.yes = adding(1, [](auto sizes) { return sizes[0]; });
    branch.no = adding(2, [](auto sizes) { return sizes[0] - 1; });
    branch.rest_sizes = 1;
    branch.results = {{expected}};
    branch.captured = 1;
    rest->set_ahead([branch = std::move(branch)](DataStage& stage, auto args, auto pointers) {
        run_data_branch(branch, stage, args, pointers);
    });
    return sized_step(make_data_stage(std::move(rest), {7, cells}, {}));
}

Cells run(Program& program, Team& team, std::uint8_t condition, Cells cells) {
    return run_sized(program, team, &condition, cells.data());
}

}  // namespace

TREADLE_TEST_WORKERS(a_branch_tells_the_sizes_of_what_follows) {
    Team team("t", {workers, workers});
    const auto program = branching(3, -1);
    for (int turn = 0; turn < 2; ++turn) {
        CHECK(run(*program, team, 1, {1, 2, 3}) == Cells({12, 13, 14}));
        CHECK(run(*program, team, 0, {1, 2, 3}) == Cells({13, 14}));
    }
}

TREADLE_TEST(a_result_of_another_size_ends_the_run) {
    Team team("t", {1, 1});
    // No size is told, so the stage has but one: it fails before it is bound.
    const auto program = branching(3, 3);
    try {
        run(*program, team, 0, {1, 2, 3});
        CHECK(false);
    } catch (const KernelFailure& failure) {
        CHECK_EQUAL(kShapeDiffers, failure.code);
    }
}

}  // namespace treadle::testing
