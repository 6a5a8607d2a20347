// Scheduler: the threads of one team, and which work each of them does. native/README.md explains the protocol.
#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "treadle/context.h"
#include "treadle/dispatcher.h"
#include "treadle/engine.h"
#include "treadle/executor.h"
#include "treadle/request.h"
#include "treadle/status.h"
#include "treadle/team_state.h"
#include "treadle/worker_chooser.h"
#include "treadle/worker_loop.h"

namespace treadle {

// Scheduler is made by Team and used through it. Any thread may call the public functions, but not while it holds
// another lock of the core. Each takes the scheduler's lock, unless it says otherwise.
class Scheduler : public std::enable_shared_from_this<Scheduler> {
public:
    // Takes `cpus` and `base_cpus` as set_cpus() does.
    Scheduler(std::string name, Limits limits, std::chrono::nanoseconds spin_limit, std::vector<int> cpus,
              std::vector<int> base_cpus);
    ~Scheduler();  // close() must have returned
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    // run() executes the context's program. It blocks until all tasks have finished, or until nothing of the run is in
    // progress after a failure, and then rethrows the first failure. It leaves the context to the caller, unless the
    // run was abandoned (see Request::keep_alive) and a thread is still inside. Throws std::runtime_error if closed.
    void run(std::unique_ptr<Context>& context, const Request& request);
    // cancel_run() ends the run with this Context::run_id with `failure`. Does nothing if there is no such run.
    void cancel_run(std::uint64_t run_id, std::exception_ptr failure);
    // set_limits() changes the team's limits from the next op boundary on. It joins idle threads beyond the new limits.
    void set_limits(Limits limits);
    // reload_limits() applies changed RunLimits and caps to runs in progress, from the next op boundary on.
    void reload_limits();
    // close() refuses new runs, cancels those in progress if `should_cancel`, blocks until they have ended, and joins
    // the threads. Throws std::runtime_error if called from inside one of the scheduler's own steps.
    void close(bool should_cancel);
    // shut_down() is close(true) for the end of the process, but waits for host steps no longer than `until`. Returns
    // whether a thread is still in a host step; if so, the scheduler must never be freed.
    bool shut_down(Clock::time_point until);
    // set_spin() changes how long idle workers spin, those that spin now included. It takes no lock.
    void set_spin(std::chrono::nanoseconds limit);
    // set_cpus() pins compute worker i to cpus[i % size], or none if `cpus` is empty. Other threads of the team keep to
    // `base`, and callers are never pinned. A pin that fails is one line on stderr and Status::pin_fault; the worker
    // then runs unpinned.
    void set_cpus(std::vector<int> cpus, std::vector<int> base);
    // status() returns a snapshot.
    Status status();
    // begin_resting() and end_resting() implement Resting. The thread that works on the slot of `holder` calls them.
    void begin_resting(Worker& holder);
    void end_resting(Worker& holder);
    // dispatch_while_resting() assigns the work that may begin because a nested caller on a slot of this team has been
    // counted as resting, see Slots::begin_resting().
    void dispatch_while_resting();
    // serve() is WorkerLoop::serve(), which the threads of the team execute.
    void serve(Worker& worker);
    // is_here() returns false in a child made by fork(), where the scheduler's threads do not exist. It takes no lock.
    bool is_here() const;
    // name() returns the team's name; it takes no lock.
    const std::string& name() const { return team_.name; }

private:
    // All of these need the lock; those that take a Section may release it and take it again.
    void begin_run(Context& run, const Request& request, Worker& caller);
    void run_serially(Section& section, Context& run, Worker& caller);
    void run_with_engine(Section& section, Context& run, Worker& caller, Engine engine);
    void run_in_parallel(Section& section, Context& run, Worker& caller);
    void end_run(Section& section, Context& run, Worker& caller);
    void update_limits();
    void apply_limits(Section& section);
    void cancel_all(Section& section);

    const std::uint64_t generation_;
    TeamState team_;
    WorkerChooser chooser_{team_};
    Dispatcher dispatcher_{team_, chooser_};
    Executor executor_{team_, dispatcher_};
    WorkerLoop loop_{team_, dispatcher_, executor_};
    bool has_left_threads_ = false;  // under the lock: shut_down() left threads in host steps, so close() does nothing
};

}  // namespace treadle
