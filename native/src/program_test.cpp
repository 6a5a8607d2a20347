#include "treadle/program.h"

#include <algorithm>

#include "treadle/context.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

std::int32_t nothing(void* const*, const std::int64_t*, std::int64_t, void*) { return 0; }

void reject(const Builder& builder, const std::string& wanted) {
    const std::string came = CHECK_THROWS(std::invalid_argument, builder.build());
    if (came.find(wanted) == std::string::npos) check::fail(__FILE__, __LINE__, "got '" + came + "'");
}

Builder one_task() {
    Builder builder;
    builder.add_kernel(nothing, {});
    return builder;
}

}  // namespace

TREADLE_TEST(errors_name_the_faulty_entry_and_its_value) {
    Builder b = one_task();
    b.steps[0].chunks = -1;
    reject(b, "step 0: chunks must be at least 0, got -1");
    b = one_task();
    b.steps[0].kernel = nullptr;
    reject(b, "step 0: wanted either a non-null kernel address or a callable");
    b = one_task();
    b.steps[0].cost_ns = -1;
    reject(b, "step 0: cost_ns must be >= 0");
    b = one_task();
    b.steps[0].pointers = {{0, 0}, {1, 0}};
    reject(b, "step 0, pointer 1: buffer must be in 0..1 (exclusive), got 1");
    b = one_task();
    b.steps[0].pointers = {{0, -8}};
    reject(b, "step 0, pointer 0: byte offset must be at least 0, got -8");
    b = one_task();
    b.tasks[0].step_count = 2;
    reject(b, "task 0: steps must end by 1");
    b = one_task();
    b.tasks[0].first_step = 1;
    reject(b, "task 0: first_step must be in 0..1 (exclusive), got 1");
    b = one_task();
    b.tasks.clear();
    b.successors.clear();
    reject(b, "step 0: belongs to no task");
    b = one_task();
    b.tasks.push_back(b.tasks[0]);
    b.successors.emplace_back();
    reject(b, "task 1: step 0 already belongs to task 0");
    b = one_task();
    b.successors.clear();
    reject(b, "successors: wanted one list a task = 1, got 0");
    b = one_task();
    b.link(0, 7);
    reject(b, "successors of task 0: task must be in 0..1 (exclusive), got 7");
    b = one_task();
    b.buffers.push_back({BufferKind::arena, 65});
    reject(b, "buffer 1: arena offset must be at most arena_bytes = 64, got 65");
    b = one_task();
    b.buffers.push_back({BufferKind::bound, 1 << 30});
    reject(b, "buffer 1: bound index must be in");
}

TREADLE_TEST(a_cyclic_program_is_refused) {
    Builder b;
    for (int i = 0; i < 3; ++i) b.add_kernel(nothing, {});
    b.link(0, 1);
    b.link(1, 2);
    b.link(2, 1);
    reject(b, "wanted an acyclic graph, got a cycle among or before tasks 1 2");
}

TREADLE_TEST(order_is_topological_and_most_urgent_first) {
    Builder b;
    for (const double priority : {1.0, 5.0, 9.0, 5.0}) b.add_kernel(nothing, {}, 1, 0, priority);
    b.link(0, 2);
    const auto program = b.build();
    const std::vector<std::uint32_t> wanted{1, 3, 0, 2};
    CHECK(std::equal(wanted.begin(), wanted.end(), program->order().begin()));
}

TREADLE_TEST(idle_contexts_are_reused_and_trimmed) {
    const auto program = one_task().build();
    int target = 0;
    void* bound[] = {&target};
    CHECK_EQUAL(0u, program->contexts());
    auto first = program->acquire(bound);
    auto second = program->acquire(bound);
    CHECK_EQUAL(2u, program->contexts());
    CHECK_EQUAL(static_cast<void*>(&target), first->pointers[0]);
    program->release(std::move(first));
    program->trim();
    CHECK_EQUAL(1u, program->contexts());
    program->release(std::move(second));
    program->trim();
    CHECK_EQUAL(0u, program->contexts());
    CHECK_THROWS(std::invalid_argument, program->acquire({}));
    CHECK_EQUAL(0u, program->contexts());
}

TREADLE_TEST(pointers_follow_the_lent_arena_and_the_next_run_reuses_it) {
    Builder b;
    b.buffers = {{BufferKind::arena, 0}, {BufferKind::arena, 32}};
    b.add_kernel(nothing, {}, 1);
    b.steps[0].pointers = {{0, 0}, {1, 8}};
    const auto program = b.build();
    auto first = program->acquire({});
    auto second = program->acquire({});
    CHECK_EQUAL(0u, program->arenas());
    program->lend_arena(*first);
    program->lend_arena(*first);
    program->lend_arena(*second);
    CHECK_EQUAL(2u, program->arenas());
    std::byte* const begin = first->arena.data();
    CHECK(begin != second->arena.data());
    CHECK_EQUAL(static_cast<void*>(begin + 40), first->pointers[1]);
    program->reclaim_arena(*first);
    program->release(std::move(first));
    auto third = program->acquire({});
    program->release(std::move(second));
    program->lend_arena(*third);
    CHECK_EQUAL(2u, program->arenas());
    CHECK_EQUAL(static_cast<void*>(third->arena.data()), third->pointers[0]);
    CHECK_EQUAL(static_cast<void*>(third->arena.data() + 40), third->pointers[1]);
    program->trim();
    CHECK_EQUAL(1u, program->arenas());
    program->release(std::move(third));
    program->trim();
    CHECK_EQUAL(0u, program->arenas());
}

// On another core each short step would fetch its operands from this core's cache, which takes longer than the step.
TREADLE_TEST(only_tasks_of_longer_steps_are_worth_sharing) {
    const auto independent_ns = [](double step_ns) {
        Builder builder;
        for (std::int64_t task = 0; task < 10; ++task) {
            for (int i = 0; i < 30; ++i) {
                StepSpec step;
                step.host = [](auto) {};
                step.cost_ns = step_ns;
                builder.steps.push_back(std::move(step));
            }
            builder.tasks.push_back({task * 30, 30, 0, false});
            builder.successors.emplace_back();
        }
        return builder.build()->independent_ns();
    };
    CHECK_EQUAL(0.0, independent_ns(60));
    CHECK_EQUAL(9 * 30 * 700.0, independent_ns(700));
}

}  // namespace treadle::testing
