#include "treadle/context.h"

#include <algorithm>
#include <utility>

namespace treadle {

Context::Context(Program& owner) : program(owner), pointers(owner.constant_pointers()) {
    pending.reserve(owner.tasks().size());
    ready.reserve(owner.tasks().size());
}

void reset(Context& run) {
    run.ready.clear();
    run.open.clear();
    run.finished_tasks = 0;
    run.ready_ns = 0;
    run.ops = run.blocking_ops = run.workers = 0;
    run.serial = run.nested = run.lent_permit_free = run.lent_permit_returned = run.finished = false;
    run.turn_began_ns = 0;
    run.failure = nullptr;
    run.outer = nullptr;
    run.in_host_steps = run.references = 0;
    run.ended_externally = run.abandoned = false;
    run.ending = std::make_shared<Ending>();
}

void release(std::unique_ptr<Context> run) {
    const std::shared_ptr<void> kept = std::move(run->kept_alive);
    Program& program = run->program;
    program.release(std::move(run));
}

Context& outermost(Context& run) {
    Context* outermost = &run;
    while (outermost->outer != nullptr) outermost = outermost->outer;
    return *outermost;
}

bool drop_reference(Context& run) { return --run.references == 0; }

double shareable_ns(const Context& run, Limits limits) {
    return std::max(limits.intra_op > 1 ? run.program.divisible_ns() : 0,
                    limits.inter_op > 1 ? run.program.independent_ns() : 0);
}

double remaining_ns(const Context& run) {
    const auto total = static_cast<double>(run.program.tasks().size());
    return run.program.cost_ns() * (1 - static_cast<double>(run.finished_tasks) / total);
}

void seed(Context& run, std::size_t done) {
    const auto tasks = run.program.tasks();
    const auto order = run.program.order();
    run.pending.resize(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) run.pending[i] = tasks[i].predecessors;
    for (const std::uint32_t i : order.first(done)) {
        for (const std::uint32_t next : run.program.successors(tasks[i])) --run.pending[next];
    }
    run.finished_tasks = done;
}

void push_ready(Context& run, std::uint32_t task) {
    run.ready.push_back(task);
    run.ready_ns += run.program.tasks()[task].cost_ns;
    std::push_heap(run.ready.begin(), run.ready.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return task_is_less_urgent(run.program, a, b); });
}

std::uint32_t pop_ready(Context& run) {
    std::pop_heap(run.ready.begin(), run.ready.end(),
                  [&](std::uint32_t a, std::uint32_t b) { return task_is_less_urgent(run.program, a, b); });
    const std::uint32_t task = run.ready.back();
    run.ready.pop_back();
    run.ready_ns = run.ready.empty() ? 0 : run.ready_ns - run.program.tasks()[task].cost_ns;
    return task;
}

Op* open_op(Context& run, std::uint32_t task, int most) {
    if (run.free_ops.empty()) {
        run.all_ops.push_back(std::make_unique<Op>());
        run.free_ops.push_back(run.all_ops.back().get());
    }
    Op* op = run.free_ops.back();
    run.free_ops.pop_back();
    const Task& record = run.program.tasks()[task];
    op->run = &run;
    op->task = task;
    op->chunks.reset(record.chunks, most);  // published by the lock under which workers enter the op
    op->cost_per_chunk = record.cost_ns / static_cast<double>(record.chunks);
    op->workers = 1;
    op->holds_lent_permit = false;
    op->open = most > 1 && record.chunks > 1;
    if (op->open) run.open.push_back(op);
    return op;
}

void close_op(Op& op) {
    if (!op.open) return;
    op.open = false;
    std::erase(op.run->open, &op);
}

void end_op(Op& op) {
    close_op(op);
    op.run->free_ops.push_back(&op);
}

}  // namespace treadle
