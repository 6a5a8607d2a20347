// Context: what one run of a program needs for itself: memory, resolved pointers, and its scheduling state.
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

// Op is a task in progress. It is made and ended under the scheduler's lock, but for those that another runtime spreads;
// only its chunks are drawn outside it.
struct Op {
    Context* run = nullptr;
    std::uint32_t task = 0;
    double cost_per_chunk = 0;
    int workers = 0;          // workers inside; the last to leave ends the op
    bool open = false;        // listed in Context::open: others may join
    bool holds_lent_permit = false;  // its token is the one lent by the enclosing op of a nested run
    Chunks chunks;
};

// Context is used by one run at a time, and handed from run to run through Program::acquire and release.
// All fields below `scheduling` are guarded by the lock of the scheduler that runs it, but for the atomic one.
struct Context {
    explicit Context(Program& owner);

    Program& program;
    // Stored with release by Program::lend_arena(), which pairs with the acquire in has_arena(): who sees it set sees `arena`
    // and `pointers` as they were left there.
    std::atomic<bool> arena_is_lent{false};
    Block arena;                  // while it is lent; see Program::lend_arena()
    std::byte* resolved_arena = nullptr;  // the arena that `pointers` point into
    std::vector<void*> pointers;  // of all steps, flat; those into the arena count once it is lent
    FpMode fp_mode = 0;
    std::uint64_t run_id = 0;
    std::shared_ptr<Ending> ending;     // of this run, each has its own
    Clock::time_point deadline = kNever;  // its own, or an earlier one of those around it

    // scheduling
    Limits asked;                         // in effect: what its sources come to; 0 stands for the team's
    LimitSources sources;
    const Context* around = nullptr;      // the run that it is a part of: in progress, or abandoned, for as long as this one is
    int priority = 0;
    std::int64_t turn_began_ns = 0;       // when it was first served since it took its place in the queue; 0: not yet
    Worker* caller = nullptr;
    std::vector<std::int32_t> pending;    // predecessors not finished yet, by task
    std::vector<std::uint32_t> ready;     // heap, most urgent first
    std::vector<Op*> open;                // ops that others may join
    std::vector<std::unique_ptr<Op>> ops_made;
    std::vector<Op*> ops_free;
    std::size_t finished_tasks = 0;
    double ready_ns = 0;                  // estimated cost of what is in `ready`
    int ops = 0;                          // in progress on places
    int blocking_ops = 0;                 // in progress on blocking threads
    int workers = 0;                      // workers inside its ops
    bool serial = false;                  // its caller walks Program::order() alone, holding one op's token
    bool nested = false;                  // called from inside a step
    bool lent_permit_free = false;               // the token of the enclosing op is there to be used
    bool finished = false;                // its caller may go: nothing is in progress, or it has been abandoned
    std::exception_ptr failure;           // the first one
    int in_host = 0;                      // workers inside its host steps
    bool may_be_abandoned = false;        // what its tasks touch can be kept without its caller
    bool ended_from_outside = false;      // and not only by a failure of its own
    bool abandoned = false;
    int holders = 0;                      // once abandoned: its caller and the workers inside, the last of which releases it
    std::shared_ptr<void> kept;           // what its tasks may touch; set by its caller as it goes, then dropped by the last

    bool has_arena() const { return arena_is_lent.load(std::memory_order_acquire); }
    // Relaxed: see Ending.
    bool is_cancelled() const { return ending->ended.load(std::memory_order_relaxed); }
};

// task_is_less_urgent() orders heaps of ready tasks: higher priority first, then the earlier task.
inline bool task_is_less_urgent(const Program& program, std::uint32_t a, std::uint32_t b) {
    const double left = program.tasks()[a].priority;
    const double right = program.tasks()[b].priority;
    return left < right || (left == right && a > b);
}

// prepare() clears what an earlier run left behind.
void prepare(Context& run);
// release() gives the context of an abandoned run back to its program, and then drops what was kept for it. To be called
// without a lock.
void release(std::unique_ptr<Context> run);
// left_ns() estimates the work of the run that has not finished.
double left_ns(const Context& run);
// seed() sets up `pending` and `ready` as if the first `done` tasks of Program::order() had finished.
void seed(Context& run, std::size_t done);
// push_ready() and pop_ready() keep the heap and its cost. pop_ready() needs a non-empty heap.
void push_ready(Context& run, std::uint32_t task);
std::uint32_t pop_ready(Context& run);
// open_op() makes an op of a task that was ready, with one worker inside, for up to `most` workers; end_op() gives it back.
Op* open_op(Context& run, std::uint32_t task, int most);
void end_op(Op& op);
// close_op() takes the op off the list of those that can be joined.
void close_op(Op& op);

}  // namespace treadle
