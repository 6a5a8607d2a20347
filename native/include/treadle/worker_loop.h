// WorkerLoop: what the thread of a worker does between critical sections: it executes what is assigned to it, and
// waits.
#pragma once

#include "treadle/clock.h"
#include "treadle/dispatcher.h"
#include "treadle/executor.h"
#include "treadle/team_state.h"

namespace treadle {

class Section;

// WorkerLoop's functions are called on the worker's own thread, without the lock, which they take now and then.
class WorkerLoop {
public:
    WorkerLoop(TeamState& team, Dispatcher& dispatcher, Executor& executor)
        : team_(team), dispatcher_(dispatcher), executor_(executor) {}

    // serve() executes the ops that are assigned to the worker of a thread of the team, until that is dismissed. The
    // scheduler may have been destroyed when it returns: a detached worker's reference may be the last.
    void serve(Worker& worker);
    // wait_for_work() blocks until the idle worker has accepted an op or has been dismissed.
    void wait_for_work(Worker& worker);

private:
    void end_detached(Section& section, Worker& worker, Context& run);
    void spin_or_park(Worker& worker, Clock::time_point began);
    void park(Worker& worker);
    void check_watch(Worker& worker);

    TeamState& team_;
    Dispatcher& dispatcher_;
    Executor& executor_;
};

}  // namespace treadle
