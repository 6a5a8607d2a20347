// Context: what one run of a program needs for itself: pointers, memory and scheduling state.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "treadle/cancel.h"
#include "treadle/chunks.h"
#include "treadle/clock.h"
#include "treadle/fp_mode.h"
#include "treadle/memory.h"
#include "treadle/program.h"
#include "treadle/run_limits.h"

namespace treadle {

struct Worker;

// Op is a task in progress. It is opened and ended under the scheduler's lock; only its chunks are drawn without it. An
// op that another runtime's loop executes is known to its caller alone.
struct Op {
    Context* run = nullptr;
    std::uint32_t task = 0;
    double cost_per_chunk = 0;
    int workers = 0;                 // inside the op; the last one to leave ends it
    bool open = false;               // is in Context::open: other workers may join
    bool holds_lent_permit = false;  // uses the permit that the enclosing op lends to a nested run
    Chunks chunks;
};

// Context is used by one run at a time. Program::acquire() and release() pass it from run to run. The lock of the run's
// scheduler guards the fields below `scheduling`.
struct Context {
    explicit Context(Program& owner);

    Program& program;
    // Program::lend_arena() stores true with release; the acquire in has_arena() is its partner, after which `arena`
    // and `pointers` are visible.
    std::atomic<bool> arena_is_lent{false};
    Block arena;                           // while it is lent; see Program::lend_arena()
    std::byte* resolved_arena = nullptr;   // the arena that `pointers` point into
    std::vector<void*> pointers;           // of all steps, flat; those into the arena are valid while it is lent
    FpMode fp_mode = 0;
    std::uint64_t run_id = 0;              // 0: the run is a part of another one
    std::int64_t iteration = -1;           // of the innermost loop around the run; -1: there is none
    std::shared_ptr<Ending> ending;        // of this run alone
    Clock::time_point deadline = kNever;   // the run's own, or an earlier one of a run around it

    // scheduling
    Limits limits;                         // in effect, computed from limit_sources; 0 stands for the team's limit
    LimitSources limit_sources;
    Context* outer = nullptr;              // the run that this one is a part of; outlives it, if only as an abandoned run
    int priority = 0;
    std::int64_t turn_began_ns = 0;        // when the run was first served since it was queued; 0: not yet
    Worker* caller = nullptr;
    std::vector<std::int32_t> pending;     // unfinished predecessors of each task
    std::vector<std::uint32_t> ready;      // heap, most urgent task first
    std::vector<Op*> open;                 // ops that other workers may join
    std::vector<std::unique_ptr<Op>> all_ops;
    std::vector<Op*> free_ops;
    std::size_t finished_tasks = 0;
    double ready_ns = 0;                   // estimated cost of the tasks in `ready`
    int ops = 0;                           // in progress, without those of blocking workers
    int blocking_ops = 0;                  // in progress on blocking workers
    int workers = 0;                       // inside its ops, without blocking workers
    bool serial = false;                   // its caller is on the serial path and holds one permit
    bool nested = false;                   // was called from inside a step
    bool caller_waits = false;             // see Request::caller_waits
    bool lent_permit_free = false;         // the enclosing op's permit is not in use
    bool lent_permit_returned = false;     // it went back to the team, see Slots::return_loan()
    bool finished = false;                 // its caller may return: nothing is in progress, or the run is abandoned
    std::exception_ptr failure;            // the first one
    int in_host_steps = 0;                 // workers inside its host steps
    bool may_be_abandoned = false;         // the request says how to keep alive what its tasks use
    bool ended_externally = false;         // by a deadline, token, poll or outer run, and not only by a failure of its own
    bool abandoned = false;
    int references = 0;                    // once abandoned: its caller and the workers inside; the last one releases it
    std::shared_ptr<void> kept_alive;      // what its tasks may use; set by the caller when it leaves an abandoned run

    // has_arena() may be called by any worker of the run, with or without the lock.
    bool has_arena() const { return arena_is_lent.load(std::memory_order_acquire); }
    // is_cancelled() is a hint without the lock, see Ending; under the lock it is exact.
    bool is_cancelled() const { return ending->ended.load(std::memory_order_relaxed); }
};

// task_is_less_urgent() orders heaps of ready tasks: higher priority first, then the earlier task.
inline bool task_is_less_urgent(const Program& program, std::uint32_t a, std::uint32_t b) {
    const double left = program.tasks()[a].priority;
    const double right = program.tasks()[b].priority;
    return left < right || (left == right && a > b);
}

// reset() clears what an earlier run left in the context. The calling thread must be the only one that refers to it.
void reset(Context& run);
// release() returns the context of an abandoned run to its program, and then drops what was kept alive for the run.
// Must be called without a lock: dropping may run arbitrary destructors.
void release(std::unique_ptr<Context> run);

// The functions below need the scheduler's lock.

// outermost() returns the run that `run` is a part of, directly or through other parts; else `run` itself.
Context& outermost(Context& run);
// drop_reference() drops what its caller, or a worker inside it, holds of an abandoned run. Returns whether it was the last
// one, which must release() the run.
bool drop_reference(Context& run);
// shareable_ns() estimates the work that other workers could take from the run's caller within `limits`.
double shareable_ns(const Context& run, Limits limits);
// remaining_ns() estimates the cost of the run's unfinished tasks.
double remaining_ns(const Context& run);
// seed() sets `pending` and `finished_tasks` as if the first `done` tasks of Program::order() had finished.
void seed(Context& run, std::size_t done);
// push_ready() adds a task to the heap of ready tasks.
void push_ready(Context& run, std::uint32_t task);
// pop_ready() removes and returns the most urgent ready task. There must be one.
std::uint32_t pop_ready(Context& run);
// open_op() makes an op of a task, with one worker inside and room for `max_workers`. end_op() gives the op back.
Op* open_op(Context& run, std::uint32_t task, int max_workers);
void end_op(Op& op);
// close_op() removes the op from those that workers may join.
void close_op(Op& op);

}  // namespace treadle
