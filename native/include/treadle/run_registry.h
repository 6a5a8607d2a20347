// RunRegistry: the runs of a team that have not returned: the order in which they are served, the runs that they are
// called from inside of, and who still holds those that their callers have abandoned.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>

#include "treadle/context.h"
#include "treadle/request.h"
#include "treadle/run_limits.h"
#include "treadle/slots.h"

namespace treadle {

// RunRegistry changes runs and the account of slots, but no worker: who executes what is not its concern. All functions
// need the scheduler's lock.
class RunRegistry {
public:
    explicit RunRegistry(Limits team_limits) : limits_(team_limits) {}

    // add() begins a run that `caller` calls, which holds nothing: it gives the run what the request asks for and, if
    // the calling thread is inside a step, what it inherits from the run around that step, and queues it.
    void add(Context& run, const Request& request, Worker& caller);
    // remove() ends it. An abandoned run may still be held; nothing else reaches it then.
    void remove(Context& run);
    // all() returns the runs in the order in which they are served: by priority, then by turn.
    const std::deque<Context*>& all() const { return runs_; }
    // find() returns the run with this Context::run_id, or null.
    Context* find(std::uint64_t run_id) const;
    // waiting() returns how many runs have no worker.
    int waiting() const;

    // set_limits() sets the team's limits. reload_limits() reads those of all runs again from their sources.
    void set_limits(Limits limits) { limits_ = limits; }
    void reload_limits();
    // limits_of() returns the limits of a run; those of the team where its own sources set none.
    Limits limits_of(const Context& run) const {
        return {run.limits.intra_op > 0 ? run.limits.intra_op : limits_.intra_op,
                run.limits.inter_op > 0 ? run.limits.inter_op : limits_.inter_op};
    }
    // update_limits() sets the slots and permits to the largest limits of the team and of its runs.
    void update_limits(Slots& slots) const;

    // begin_turn() begins a turn of the run, or of the one that it is a part of, unless one has begun.
    void begin_turn(Context& run);
    // end_of_turn() returns when the turn ends, because a later run of that priority starves; kEndlessNs if none does.
    std::int64_t end_of_turn(Context& run) const;
    // end_turn_if_over() queues a run whose turn is over again, together with its parts. `run` is it or one of the
    // parts.
    void end_turn_if_over(Context& run);
    // starves_before() returns whether a run that is served before `run` starves, which is not one that it is a part
    // of.
    bool starves_before(Context& run) const;

    // queue() adds a task that has become ready: to the run, or to those that wait for a blocking worker. queue_rest()
    // sets up the counters as if the first `done` tasks of Program::order() had finished, and queues the tasks that are
    // ready.
    void queue(Context& run, std::uint32_t task);
    void queue_rest(Context& run, std::size_t done);
    // drop_tasks() drops those of the run that have not begun.
    void drop_tasks(Context& run);

    // has_blocking_tasks() returns whether tasks wait for blocking workers, blocking_ops() how many are in progress.
    // blocking_run() returns the run of the first that waits; begin_blocking() makes an op of that task, and
    // end_blocking() ends it.
    bool has_blocking_tasks() const { return !blocking_tasks_.empty(); }
    int blocking_ops() const { return blocking_ops_; }
    Context& blocking_run() const { return *blocking_tasks_.front().first; }
    Op* begin_blocking();
    void end_blocking(Op& op);

    // abandon() releases the permits of a run that can_be_abandoned(). From then on only its caller and the workers
    // inside its host steps hold it, until each calls drop_reference().
    void abandon(Context& run, Slots& slots);
    // is_only_in_host_steps() returns whether nothing but host steps is in progress in all runs.
    bool is_only_in_host_steps() const;

private:
    void enqueue(Context& run);

    Limits limits_;             // of the team
    std::deque<Context*> runs_;
    std::deque<std::pair<Context*, std::uint32_t>> blocking_tasks_;
    int blocking_ops_ = 0;
};

// is_starved() returns whether the run has a ready task and no worker. Needs the lock.
inline bool is_starved(const Context& run) {
    return !run.finished && run.workers == 0 && !run.serial && !run.ready.empty();
}
// can_be_abandoned() returns whether the run has been ended from outside and only host steps in threads other than its
// caller's are left of it. No host step begins after that, and none is followed by another step. So this becomes true
// only when the run is ended or a worker leaves one of its ops, and then stays true. Needs the lock.
bool can_be_abandoned(const Context& run);

}  // namespace treadle
