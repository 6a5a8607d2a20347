// Executor: executes tasks, step after step, on the threads of a team or on those of another runtime.
#pragma once

#include <cstddef>
#include <cstdint>

#include "treadle/context.h"
#include "treadle/dispatcher.h"
#include "treadle/engine.h"
#include "treadle/team_state.h"
#include "treadle/worker.h"

namespace treadle {

// EngineLoop is another runtime's loop over the chunks of an op, for up to `width` threads.
struct EngineLoop {
    Engine engine;
    int width;
    std::uint64_t generation;  // of the calling process: the engine's threads do not exist in a child made by fork()
};

// Executor's functions are called without the lock, on the thread of the worker. They take it to enter and leave host
// steps and to cancel a run in which a step fails; they throw nothing.
class Executor {
public:
    Executor(TeamState& team, Dispatcher& dispatcher) : team_(team), dispatcher_(dispatcher) {}

    // execute_op() executes the worker's part of the op. Afterwards no chunk of the op is left to begin.
    void execute_op(Worker& worker, Op& op);
    // run_tasks() executes the tasks of Program::order() from number `from` on. Returns how many tasks have finished:
    // all, unless the run was cancelled, the epoch is no longer `epoch`, or the time is past `until_ns`.
    std::size_t run_tasks(Worker& worker, Context& run, std::size_t from, std::uint64_t epoch, std::int64_t until_ns);
    // run_tasks_with_engine() does the same without a bound on the time, but `loop` executes the chunks of ops that are
    // worth it.
    std::size_t run_tasks_with_engine(Worker& caller, Context& run, std::size_t from, std::uint64_t epoch,
                                      EngineLoop loop);

private:
    class HostStepScope;

    void run_steps(Worker& worker, Context& run, const Task& task, void* scratch);
    void call_host(Worker& worker, Context& run, const Step& step);
    void cancel_by_exception(Worker& worker, Context& run);
    void run_op_with_engine(Worker& caller, Op& op, EngineLoop loop);
    void work_on_engine_thread(Op& op);

    TeamState& team_;
    Dispatcher& dispatcher_;
};

}  // namespace treadle
