// Stages behind sizes that depend on data.
#include "treadle/data_stage.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "treadle/check.h"
#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

// Writes args[0] cells from pointer 1, each one more, to pointer 0.
std::int32_t increment(void* const* pointers, const std::int64_t* args, std::int64_t, void*) {
    const auto* const from = static_cast<const std::int64_t*>(pointers[1]);
    std::transform(from, from + args[0], static_cast<std::int64_t*>(pointers[0]), [](auto cell) { return cell + 1; });
    return 0;
}

// A template of one step that increments n cells, n from 1 to 1,000, and requests n. If `kernel` is null, the step is
// for a stage, which finds the size.
std::shared_ptr<ProgramTemplate> increments(Kernel kernel = increment) {
    // Slots: 0: n, 1: 0, 2: 1, 3: 1000, 4: cost, 5: n - 1, 6: n < 1, 7: guard, 8: 1000 - n, 9: n > 1000, 10: guard
    const auto op = [](BinderOp kind, std::int32_t first) {
        return Binder::Operation{static_cast<std::int32_t>(kind), first};
    };
    Binder binder(1, {0, 1, 1000, std::bit_cast<Slot>(100.0)},
                  {op(BinderOp::sub, 0), op(BinderOp::is_negative, 2), op(BinderOp::logical_not, 3),
                   op(BinderOp::sub, 4), op(BinderOp::is_negative, 6), op(BinderOp::logical_not, 7)},
                  {0, 2, 5, 6, 3, 0, 8, 9});
    StepTemplate step;
    step.kernel = kernel;
    step.pointers = {{1, 1}, {0, 1}};
    step.args = {0};
    step.chunks = 2;
    step.cost_ns = 4;
    TemplateSpec spec = one_step(std::move(step), {{BufferKind::bound, 0}, {BufferKind::bound, 1}});
    spec.scratch_bytes = 1;
    spec.guards = {7, 10};
    if (kernel != nullptr) spec.requested = {0};
    return std::make_shared<ProgramTemplate>(std::move(binder), std::move(spec));
}

// A program whose only step runs `stage` on a size and an input, both bound behind the output.
std::shared_ptr<Program> running(std::shared_ptr<DataStage> stage) {
    Builder builder;
    builder.buffers.clear();
    for (std::int64_t i = 0; i < 3; ++i) builder.buffers.push_back({BufferKind::bound, i});
    StepSpec step;
    step.host = make_data_stage(std::move(stage), {}, {1});
    step.pointers = {{0, 0}, {1, 0}, {2, 0}};
    step.cost_ns = kCostly;
    builder.add(std::move(step));
    return builder.build();
}

std::shared_ptr<DataStage> stage_of(DataStage::Miss miss) {
    return std::make_shared<DataStage>(std::vector<std::size_t>{sizeof(std::int64_t)}, BufferPool::make(1 << 20, true),
                                       std::move(miss));
}

void run_and_check(Program& program, Team& team, std::int64_t size) {
    std::vector<std::int64_t> cells(static_cast<std::size_t>(size));
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i] = static_cast<std::int64_t>(7 * i);
    SizedMemory output;
    void* bound[] = {&output, &size, cells.data()};
    team.run(program, bound);
    CHECK_EQUAL(1u, output.shape.size());
    CHECK_EQUAL(size, output.shape[0]);
    const auto* const found = reinterpret_cast<const std::int64_t*>(output.memory->data());
    for (std::size_t i = 0; i < cells.size(); ++i) CHECK_EQUAL(cells[i] + 1, found[i]);
}

// A source whose only step runs the stage `inner`. `made` is called whenever a binding of it is made.
DataStage::Source source_of(const std::shared_ptr<DataStage>& inner, std::function<void()> made = [] {}) {
    const MakeHost maker = stage_maker(inner, {});
    const MakeHost told = [maker, made = std::move(made)](std::vector<std::int64_t> args) {
        made();
        return maker(std::move(args));
    };
    return {increments(nullptr), {0}, {std::nullopt}, {}, {told}};
}

}  // namespace

TREADLE_TEST_WORKERS(a_stage_binds_its_template_to_each_size) {
    Team team("t", {workers, workers});
    int misses = 0;
    const std::shared_ptr<DataStage> stage = stage_of([&](auto) {
        ++misses;
        return nullptr;
    });
    stage->add({increments(), {0}, {1}, {}});
    const auto program = running(stage);
    for (int turn = 0; turn < 2; ++turn) {
        for (const std::int64_t size : {5, 1, 1000}) run_and_check(*program, team, size);
    }
    CHECK_EQUAL(0, misses);
}

TREADLE_TEST_WORKERS(sizes_that_come_again_get_a_binding_of_their_own) {
    Team team("t", {workers, workers});
    const auto inner = stage_of([](auto) { return nullptr; });
    inner->add({increments(), {0}, {1}, {}});
    const std::shared_ptr<DataStage> outer = stage_of([](auto) { return nullptr; });
    int made = 0;
    outer->add(source_of(inner, [&] { ++made; }));
    const auto program = running(outer);
    for (std::int64_t size = 1; size <= 100; ++size) run_and_check(*program, team, size);
    CHECK_EQUAL(100, made);  // each time its steps get other arguments
    for (int turn = 0; turn < 3; ++turn) run_and_check(*program, team, 100);
    CHECK_EQUAL(101, made);
    outer->replace(0, source_of(inner, [&] { made += 1000; }));
    run_and_check(*program, team, 101);
    CHECK_EQUAL(1101, made);  // the one that was moved belonged to the former source
}

TREADLE_TEST(a_stage_asks_once_for_sizes_that_no_template_serves) {
    Team team("t", {1, 1});
    std::vector<std::int64_t> missed;
    const auto wide = increments();
    const std::shared_ptr<DataStage> stage = stage_of([&](std::span<const std::int64_t> sizes) {
        missed.push_back(sizes[0]);
        StepSpec step;
        step.kernel = increment;
        step.pointers = {{1, 0}, {0, 0}};
        step.args = {sizes[0]};
        Builder builder;
        builder.buffers.clear();
        for (std::int64_t i = 0; i < 2; ++i) builder.buffers.push_back({BufferKind::bound, i});
        builder.add(std::move(step));
        auto binding = std::make_shared<DataStage::Binding>();
        binding->program = builder.build();
        binding->shapes = {std::vector<std::int64_t>{sizes[0]}};
        return std::shared_ptr<const DataStage::Binding>(binding);
    });
    stage->add({wide, {0}, {1}, {}});
    const auto program = running(stage);
    for (const std::int64_t size : {2000, 5, 0, 2000, 0}) run_and_check(*program, team, size);
    CHECK(missed == std::vector<std::int64_t>({2000, 0}));
}

TREADLE_TEST_WORKERS(a_stage_runs_stages_in_its_template) {
    Team team("t", {workers, workers});
    std::vector<std::int64_t> missed;
    const std::shared_ptr<DataStage> inner = stage_of([&](std::span<const std::int64_t> sizes) {
        missed.assign(sizes.begin(), sizes.end());
        return nullptr;
    });
    const std::shared_ptr<DataStage> outer = stage_of([](auto) { return nullptr; });
    outer->add({increments(nullptr), {0}, {std::nullopt}, {}, {stage_maker(inner, {})}});
    const auto program = running(outer);
    std::int64_t size = 3;
    SizedMemory output;
    void* bound[] = {&output, &size, &size};
    CHECK_THROWS(std::logic_error, team.run(*program, bound));
    CHECK(missed == std::vector<std::int64_t>({3}));
    inner->add({increments(), {0}, {1}, {}});
    for (const std::int64_t each : {5, 1, 1000, 5}) run_and_check(*program, team, each);
    CHECK(missed == std::vector<std::int64_t>({3}));
}

TREADLE_TEST(a_stage_reads_known_sizes_and_several_at_a_pointer) {
    Team team("t", {1, 1});
    std::vector<std::int64_t> missed;
    StepSpec step;
    step.host = make_data_stage(stage_of([&](std::span<const std::int64_t> sizes) {
                                    missed.assign(sizes.begin(), sizes.end());
                                    return nullptr;
                                }),
                                {7, 8}, {2, 0, 1});
    step.pointers = {{0, 0}, {1, 0}, {1, 0}, {2, 0}};
    Builder builder;
    builder.buffers.clear();
    for (std::int64_t i = 0; i < 3; ++i) builder.buffers.push_back({BufferKind::bound, i});
    builder.add(std::move(step));
    SizedMemory output;
    std::int64_t two[] = {1, -2};
    std::int64_t one = 3;
    void* bound[] = {&output, two, &one};
    CHECK_THROWS(std::logic_error, team.run(*builder.build(), bound));
    CHECK(missed == std::vector<std::int64_t>({7, 8, 1, -2, 3}));
}

TREADLE_TEST(a_stage_keeps_the_bindings_used_last) {
    Team team("t", {1, 1});
    const std::shared_ptr<DataStage> stage = stage_of([](auto) { return nullptr; });
    stage->add({increments(), {0}, {1}, {}});
    const std::int64_t first[] = {1};
    const auto binding = stage->bind(first);
    for (std::int64_t size = 2; size <= static_cast<std::int64_t>(DataStage::kMostBindings); ++size) {
        stage->bind({&size, 1});
    }
    CHECK(binding == stage->bind(first));
    for (std::int64_t size = 100; size < 100 + static_cast<std::int64_t>(DataStage::kMostBindings); ++size) {
        stage->bind({&size, 1});
    }
    CHECK(binding != stage->bind(first));
    CHECK_EQUAL(binding->program->id(), stage->bind(first)->program->id());
}

TREADLE_TEST_WORKERS(a_binding_of_a_source_that_was_replaced_meanwhile_is_made_again) {
    Team team("t", {workers, workers});
    const auto no_inner = stage_of([](auto) { return nullptr; });
    const auto inner = stage_of([](auto) { return nullptr; });
    inner->add({increments(), {0}, {1}, {}});
    const std::shared_ptr<DataStage> outer = stage_of([](auto) { return nullptr; });
    int made = 0;
    outer->add(source_of(no_inner, [&] {
        ++made;
        outer->replace(0, source_of(inner));
    }));
    const auto program = running(outer);
    for (int turn = 0; turn < 2; ++turn) run_and_check(*program, team, 5);
    CHECK_EQUAL(1, made);
    const std::int64_t sizes[] = {5};
    const auto binding = outer->bind(sizes);
    CHECK(outer->is_current(*binding));
    outer->replace(0, source_of(inner));
    CHECK(!outer->is_current(*binding));
}

TREADLE_TEST_WORKERS(sources_are_replaced_while_threads_bind_them) {
    Team team("t", {workers, workers});
    const auto inner = stage_of([](auto) { return nullptr; });
    inner->add({increments(), {0}, {1}, {}});
    const std::shared_ptr<DataStage> outer = stage_of([](auto) { return nullptr; });
    outer->add(source_of(inner));
    std::atomic<bool> stop{false};
    std::thread replacing([&] {
        while (!stop) {
            outer->replace(0, source_of(inner));
            std::this_thread::sleep_for(std::chrono::microseconds(20));  // so that some bindings are kept
        }
    });
    const auto program = running(outer);
    for (std::int64_t turn = 0; turn < 200; ++turn) run_and_check(*program, team, 1 + turn % 7);
    stop = true;
    replacing.join();
}

TREADLE_TEST(a_stage_without_a_program_fails) {
    Team team("t", {1, 1});
    const auto program = running(stage_of([](auto) { return nullptr; }));
    SizedMemory output;
    std::int64_t size = 3;
    void* bound[] = {&output, &size, nullptr};
    CHECK_THROWS(std::logic_error, team.run(*program, bound));
}

}  // namespace treadle::testing
