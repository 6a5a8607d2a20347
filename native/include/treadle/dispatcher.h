// Dispatcher: which work goes to which worker, and how runs end.
#pragma once

#include <exception>

#include "treadle/team_state.h"
#include "treadle/worker_chooser.h"

namespace treadle {

class Section;

// Cause says what ends a run early: a failure of its own, or something outside. Only the latter may have it abandoned.
enum class Cause { own, external };

// Dispatcher makes the decisions of native/README.md, once each time a worker enters or leaves an op. All functions
// need the scheduler's lock. None releases it; parked workers are woken when the section ends.
class Dispatcher {
public:
    Dispatcher(TeamState& team, WorkerChooser& chooser) : team_(team), chooser_(chooser) {}

    // dispatch() assigns tasks to start and ops to join, first run first, to idle workers where that pays. A run
    // without a worker always gets one. It ends each critical section in which work became ready, or a slot or permit
    // free.
    void dispatch(Section& section);
    // next_op() returns the op that a worker with a slot executes next: a ready task, an open op to join, or an
    // assignment taken over; null if there is none.
    Op* next_op(Worker& worker);
    // advance() leaves `op` and returns the worker's next op. Null: the worker's own run has finished, or the worker is
    // idle now and must call WorkerLoop::wait_for_work(). It becomes idle before dispatch() looks for work, so no work
    // is missed.
    Op* advance(Section& section, Worker& worker, Op& op);
    // can_run_serially() returns whether the caller executes the run alone: other workers could take too little of it
    // within its limits.
    bool can_run_serially(const Context& run, const Worker& caller) const;
    // must_yield_slot() returns whether a caller must release its slot: to a run earlier in the queue that starves, or
    // as there are too few slots.
    bool must_yield_slot(const Worker& worker) const;
    // reclaim_slot() frees a slot for the caller of `for_whom`, if one was assigned to a helper that has not accepted,
    // in an op of a run whose priority is no higher.
    void reclaim_slot(const Context& for_whom);

    // cancel() keeps the first failure of the run and drops the tasks that have not begun. Does nothing if the run has
    // been abandoned.
    void cancel(Section& section, Context& run, std::exception_ptr failure, Cause cause);
    // finish_if_done() lets the run's caller return if nothing of the run is in progress, or the run can be abandoned.
    void finish_if_done(Section& section, Context& run);
    // end_detached() ends a worker of an abandoned run on its own thread, whose step has ended. Returns whether it was
    // the last one to hold the run, which it must release() then, without the lock.
    bool end_detached(Section& section, Worker& worker, Context& run);

private:
    int others_working_beside(const Worker& worker) const;
    bool has_permit_for(const Context& run, int others_working) const;
    bool can_start(const Context& run, int others_working) const;
    Op* start_op(Context& run, std::uint32_t task);
    void leave_op(Section& section, Op& op);
    Context* choose_run(const Worker& worker);
    Op* best_open_op(const Context& run) const;
    Op* take_over_op(const Worker& for_whom);
    void revoke_all(Section& section, Context& run);
    bool leave_to_caller(const Context& run) const;
    bool dispatch_start(Section& section, Context& run);
    bool dispatch_join(Section& section, Context& run);
    void dispatch_blocking(Section& section);
    Worker* start_blocking_for(Section& section, Context& run);

    TeamState& team_;
    WorkerChooser& chooser_;
};

}  // namespace treadle
