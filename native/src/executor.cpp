#include "treadle/executor.h"

#include <algorithm>

#include "treadle/chaos.h"
#include "treadle/fork.h"
#include "treadle/section.h"
#include "treadle/trace.h"

namespace treadle {

namespace {

// CurrentWorkerScope makes the worker visible to runs that are called from inside a host step.
class CurrentWorkerScope {
public:
    CurrentWorkerScope(Worker& worker, Context& run) : outer_(current_worker()), worker_(worker) {
        current_worker() = &worker;
        worker.current_run = &run;
        worker.iteration = run.iteration;
    }
    ~CurrentWorkerScope() {
        worker_.current_run = nullptr;
        current_worker() = outer_;
    }
    CurrentWorkerScope(const CurrentWorkerScope&) = delete;
    CurrentWorkerScope& operator=(const CurrentWorkerScope&) = delete;

private:
    Worker* outer_;
    Worker& worker_;
};

// Lends the run its arena if it has none, and returns the worker's scratch, enlarged to what the program needs.
void* prepare_memory(Worker& worker, Context& run) {
    if (!run.has_arena()) run.program.lend_arena(run);
    const std::size_t needed = run.program.scratch_bytes();
    worker.scratch.grow(needed);
    return worker.scratch.data();
}

void apply_fp_mode(Worker& worker, const Context& run) {
    if (worker.fp_mode == run.fp_mode) return;
    set_fp_mode(run.fp_mode);
    worker.fp_mode = run.fp_mode;
}

void call_kernel(const Context& run, std::int64_t index, std::int64_t chunk, void* scratch) {
    const Step& step = run.program.steps()[static_cast<std::size_t>(index)];
    const std::int32_t code =
        step.kernel(run.pointers.data() + step.first_pointer, step.args, chunk, scratch);
    if (code != 0) throw KernelFailure(run.program.id(), index, code);
}

void draw_chunks(Worker& worker, const Context& run, Op& op, std::int64_t step, void* scratch) {
    const bool traced = tracing();
    const std::int64_t start = traced ? monotonic_ns() : 0;
    std::int64_t drawn = 0;
    Chunks::Cursor cursor(op.chunks, worker.slot_holder->slot);
    while (!run.is_cancelled()) {
        chaos_point();
        const std::int64_t chunk = cursor.draw();
        if (chunk == Chunks::kNone) break;
        call_kernel(run, step, chunk, scratch);
        ++drawn;
        worker.watch.maybe_check(op.cost_per_chunk);
    }
    if (traced && drawn > 0) record(run, worker, step, start, drawn);
}

bool is_worth_engine(const Task& task, const HandOver& hand_over) {
    return task.chunks > 1 && task.cost_ns >= 2 * hand_over.worth_calling_spinner_ns();
}

}  // namespace

// HostStepScope counts the worker as inside a host step of the run, which the run's caller may abandon. It takes the
// lock on entry and exit.
class Executor::HostStepScope {
public:
    HostStepScope(Executor& executor, Worker& worker, Context& run)
        : team_(executor.team_), worker_(worker), run_(run) {
        Section section(team_);
        if (run.is_cancelled()) return;  // written under the lock we hold: no host step begins after it
        worker.host_run = &run;
        ++run.in_host_steps;
        if (team_.slots.has_reservations()) executor.dispatcher_.dispatch(section);  // see may_use_free_slot()
    }
    ~HostStepScope() {
        if (!has_begun()) return;
        const Section section(team_);
        worker_.host_run = nullptr;
        --run_.in_host_steps;
    }
    HostStepScope(const HostStepScope&) = delete;
    HostStepScope& operator=(const HostStepScope&) = delete;

    bool has_begun() const { return worker_.host_run != nullptr; }  // written by this thread alone

private:
    TeamState& team_;
    Worker& worker_;
    Context& run_;
};

void Executor::call_host(Worker& worker, Context& run, const Step& step) {
    const HostStepScope scope(*this, worker, run);
    if (!scope.has_begun()) return;
    const CurrentWorkerScope inside(worker, run);
    try {
        step.host({run.pointers.data() + step.first_pointer, step.pointer_count});
    } catch (const StepFailure& failure) {
        throw KernelFailure(run.program.id(), &step - run.program.steps().data(), failure.code);
    }
}

void Executor::run_steps(Worker& worker, Context& run, const Task& task, void* scratch) {
    for (std::uint32_t i = task.first_step; i < task.first_step + task.step_count; ++i) {
        const Step& step = run.program.steps()[i];
        const bool traced = tracing();
        const std::int64_t start = traced ? monotonic_ns() : 0;
        if (step.kernel == nullptr) {
            call_host(worker, run, step);
        } else {
            const double chunk_ns = task.cost_ns / static_cast<double>(task.step_count * step.chunks);
            for (std::int64_t chunk = 0; chunk < step.chunks; ++chunk) {
                call_kernel(run, i, chunk, scratch);
                worker.watch.maybe_check(chunk_ns);
                if (run.is_cancelled()) return;
            }
        }
        if (traced && step.chunks > 0) record(run, worker, i, start, step.chunks);
        if (run.is_cancelled()) return;
    }
}

// Ends the run by the exception that is being handled.
void Executor::cancel_by_exception(Worker& worker, Context& run) {
    Section section(team_);
    const Cause cause = worker.watch.ended_run() ? Cause::external : Cause::own;
    dispatcher_.cancel(section, run, std::current_exception(), cause);
}

void Executor::execute_op(Worker& worker, Op& op) {
    Context& run = *op.run;
    const Task& task = run.program.tasks()[op.task];
    try {
        apply_fp_mode(worker, run);
        void* const scratch = prepare_memory(worker, run);
        if (op.chunks.count() > 1) {
            draw_chunks(worker, run, op, task.first_step, scratch);
        } else {
            run_steps(worker, run, task, scratch);
            worker.watch.maybe_check(0);
        }
    } catch (...) {
        cancel_by_exception(worker, run);
    }
}

std::size_t Executor::run_tasks(Worker& worker, Context& run, std::size_t from, std::uint64_t epoch,
                                std::int64_t until_ns) {
    const auto order = run.program.order();
    std::size_t done = from;
    try {
        void* const scratch = prepare_memory(worker, run);
        for (; done < order.size(); ++done) {
            if (team_.slots.epoch() != epoch || run.is_cancelled()) break;
            run_steps(worker, run, run.program.tasks()[order[done]], scratch);
            worker.watch.maybe_check(0);
            if (until_ns != kEndlessNs && monotonic_ns() >= until_ns) {
                ++done;
                break;
            }
        }
    } catch (...) {
        cancel_by_exception(worker, run);
    }
    return done;
}

std::size_t Executor::run_tasks_with_engine(Worker& caller, Context& run, std::size_t from, std::uint64_t epoch,
                                            EngineLoop loop) {
    const auto order = run.program.order();
    std::size_t done = from;
    Op op;
    op.run = &run;
    for (; done < order.size(); ++done) {
        if (team_.slots.epoch() != epoch || run.is_cancelled()) break;
        const Task& task = run.program.tasks()[order[done]];
        op.task = order[done];
        op.cost_per_chunk = task.cost_ns / static_cast<double>(task.chunks);
        const auto most = std::min<std::int64_t>({loop.width, run.program.max_workers(op.task), task.chunks});
        op.chunks.reset(task.chunks, most);
        if (most > 1 && is_worth_engine(task, run.program.hand_over()) && loop.generation == fork_generation()) {
            run_op_with_engine(caller, op, {loop.engine, static_cast<int>(most), loop.generation});
        } else {
            execute_op(caller, op);
        }
    }
    return done;
}

}  // namespace treadle
