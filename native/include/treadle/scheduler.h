// Scheduler: the threads of one team, and which work each of them does. native/README.md explains the protocol.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "treadle/cancel.h"
#include "treadle/context.h"
#include "treadle/policy.h"
#include "treadle/engine.h"
#include "treadle/mutex.h"
#include "treadle/request.h"
#include "treadle/run_registry.h"
#include "treadle/slot_audit.h"
#include "treadle/slots.h"
#include "treadle/worker.h"

namespace treadle {

// Status is a snapshot of a team.
struct Status {
    int workers = 0;           // compute threads that are alive
    int blocking = 0;          // blocking workers that are alive
    int abandoned = 0;         // detached workers: threads in host steps of abandoned runs
    int slots = 0;             // in use
    int spinning = 0;          // idle workers that are not parked
    int runs = 0;              // in progress, queued ones included
    int waiting = 0;           // runs without a worker
    std::uint64_t wake_ups = 0;  // of parked compute workers that were to help with runs, so far
    std::string pin_fault;     // why a worker is not pinned as requested; empty if all are
    std::string thread_fault;  // why there are fewer threads than there should be; empty if there are enough
};

// NoThread fails a run that needs a blocking worker when the system refuses to start a thread.
struct NoThread : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Scheduler is made by Team and used through it. Any thread may call the public functions, but not while it holds
// another lock of the core. Each takes the scheduler's lock.
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
    // is_here() returns false in a child made by fork(), where the scheduler's threads do not exist. It takes no lock.
    bool is_here() const;

private:
    friend class SlotAudit;

    // Section holds the lock. When it releases the lock, it wakes the parked workers whose state was changed meanwhile.
    class Section;

    // scheduler.cpp and engine.cpp: runs. All need the lock; those that take a Section may release it and take it
    // again.
    void begin_run(Context& run, const Request& request, Worker& caller);
    void end_run(Section& section, Context& run, Worker& caller);
    void run_serially(Section& section, Context& run, Worker& caller);
    void run_in_parallel(Section& section, Context& run, Worker& caller);
    void run_with_engine(Section& section, Context& run, Worker& caller, Engine engine);
    void note_return(Worker& caller);
    bool can_run_serially(const Context& run, const Worker& caller) const;
    void update_limits();
    enum class Cause { own, external };
    void cancel(Section& section, Context& run, std::exception_ptr failure, Cause cause);
    void cancel_all(Section& section);
    void apply_limits(Section& section);
    void finish_if_done(Section& section, Context& run);

    // abandon.cpp: runs whose callers do not wait for their host steps. All need the lock.
    void abandon(Context& run);
    void end_detached_worker(Section& section, Worker& worker, Context& run);

    // schedule.cpp: which work goes to which worker. All need the lock.
    double shareable_ns(const Context& run) const;
    double remaining_shareable_ns(const Context& run) const;
    int others_working_beside(const Worker& worker) const;
    bool has_permit_for(const Context& run, int others_working) const;
    bool can_start(const Context& run, int others_working) const;
    Op* start_op(Context& run, std::uint32_t task);
    bool may_assign_helper(const Context& run, double gain_ns, int free_slots);
    Context* choose_run(const Worker& worker);
    Op* next_op(Worker& worker);
    Op* best_open_op(const Context& run) const;
    void leave_op(Section& section, Op& op);
    template <typename Matches>
    Worker* revoke_one(const Matches& matches);
    Op* take_over_op(const Worker& for_whom);
    void reclaim_slot(const Context& for_whom);
    void revoke_all(Section& section, Context& run);
    Op* advance(Section& section, Worker& worker, Op& op);
    void dispatch(Section& section);
    bool dispatch_start(Section& section, Context& run);
    bool dispatch_join(Section& section, Context& run);
    void dispatch_blocking(Section& section);
    bool must_yield_slot(const Worker& worker) const;
    bool leave_to_caller(const Context& run) const;

    // choose_worker.cpp: which idle worker gets work. All need the lock.
    Worker* choose_worker(Section& section, Context& run, double gain_ns);
    Worker* idle_worker() const;
    bool has_workers_for(int slots) const;
    bool is_crowded(const Context& run);
    Worker* compute_worker();
    Worker* worker_for_waiting(Context& run);
    int unpark_workers(Section& section, int most);
    int missing_workers(const Context& run);
    void unpark_for_run(Section& section, const Context& run, double saved_ns);
    void unpark_for_short_runs(Section& section, const Context& run);

    // threads.cpp: threads. All but thread_main() and worker_loop() need the lock.
    Worker* start_worker();
    Worker* start_blocking_for(Section& section, Context& run);
    Worker* start_thread(Role role);
    static void* thread_main(void* worker);
    void worker_loop(Worker& worker);
    Worker* acquire_caller();
    void retire_surplus(Section& section);
    void join_retired(Section& section);
    void pin(Worker& worker);

    // parking.cpp: slots, idle workers, assignments. All need the lock unless the next block lists them.
    void take_slot(Worker& worker);
    bool may_spin(const Worker& worker, int slots_used) const;
    void become_idle(Section& section, Worker& worker);
    void leave_idle(Worker& worker);
    static void count_as_resting(const Worker& worker);
    static void count_as_running(const Worker& worker);
    void assign(Section& section, Worker& worker, Op* op);
    bool revoke(Worker& worker);
    void dismiss(Section& section, Worker& worker);
    void set_state(Section& section, Worker& worker, State state);
    void prepare_to_wake(Worker& worker);
    void note_woken(Worker& worker, bool in_time);
    void park_surplus_spinners();
    // These are for the idle worker's own thread, without a lock.
    void dispatch_while_resting();
    static bool accept(Worker& worker);
    void wait_for_work(Worker& worker);
    void park(Worker& worker);
    void check_watch_while_waiting(Worker& worker);
    void spin_or_park(Worker& worker, Clock::time_point began);

    // execute.cpp: steps. Called without the lock.
    class HostStepScope;
    void execute_op(Worker& worker, Op& op);
    void call_host(Worker& worker, Context& run, const Step& step);
    void run_steps(Worker& worker, Context& run, const Task& task, void* scratch);
    std::size_t run_tasks_serially(Worker& worker, Context& run, std::size_t from, std::uint64_t epoch,
                                   std::int64_t until_ns);

    // engine.cpp, execute.cpp: ops whose chunks another runtime's loop executes. Called without the lock.
    struct EngineLoop {
        Engine engine;
        int width;
        std::uint64_t generation;  // of the calling process: the engine's threads do not exist in a child made by fork()
    };
    std::size_t run_tasks_with_engine(Worker& caller, Context& run, std::size_t from, std::uint64_t epoch,
                                      EngineLoop loop);
    void run_op_with_engine(Worker& caller, Op& op, EngineLoop loop);
    void work_on_engine_thread(Op& op);

    Mutex mutex_;
    // mutex_ guards everything below, except constants and atomics.
    const std::string name_;
    const int id_;
    const std::uint64_t generation_;
    std::vector<int> cpus_;       // of compute workers; empty: unpinned
    std::vector<int> base_cpus_;  // of all other threads; empty: nothing was ever pinned
    std::string pin_fault_;       // the first one since cpus_ was set, else empty
    std::string thread_fault_;    // of the last attempt to start a compute worker; empty if it succeeded
    std::int64_t retry_start_ns_ = 0;  // no compute worker is started before this time
    RunRegistry runs_;
    Slots slots_;
    double forgone_ns_ = 0;  // what help would have saved in runs too short for it, since such runs last got a worker
    std::uint64_t wake_ups_ = 0;  // see Status
    WakeRecord wake_record_;
    bool closing_ = false;
    bool has_left_threads_ = false;  // shut_down() left threads in host steps: close() has nothing to do
    std::vector<Worker*> idle_;      // callers and compute workers; the last one became idle last
    std::vector<Worker*> idle_blocking_;
    std::vector<Worker*> assigned_;  // all workers in the state `assigned`, and some that have left it
    std::vector<std::unique_ptr<Worker>> callers_;
    std::vector<Worker*> free_callers_;
    std::vector<std::unique_ptr<Worker>> workers_;   // compute workers by index, which detached ones leave gaps in
    std::vector<std::unique_ptr<Worker>> blocking_;  // blocking workers, likewise
    std::vector<std::unique_ptr<Worker>> detached_;  // in host steps of abandoned runs; their threads are not joined
    std::vector<std::unique_ptr<Worker>> retired_;   // dismissed, to be joined
    std::vector<std::unique_ptr<Worker>> joined_;    // ended; kept because a late wake() may still name one
    std::size_t worker_limit_ = 0;                   // compute workers beyond this number end when idle
    std::condition_variable_any run_ended_;          // a run or a detached worker has ended
    // How long idle workers spin. set_spin() stores it, any thread loads it, both relaxed: it orders nothing.
    std::atomic<std::int64_t> spin_ns_;
};

// Section is the only way to hold the scheduler's lock.
class Scheduler::Section {
public:
    explicit Section(Scheduler& scheduler) : scheduler_(scheduler), lock_(scheduler.mutex_) { audit_.begin(scheduler_); }
    ~Section() { unlock(); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

    // unlock() releases the lock and then wakes the workers of wake_later().
    void unlock() {
        if (!lock_.owns_lock()) return;
        audit_.check(scheduler_);
        lock_.unlock();
        for (int i = 0; i < count_; ++i) wake(*first_[i]);
        for (Worker* worker : more_) wake(*worker);
        count_ = 0;
        more_.clear();
    }
    void lock() {
        lock_.lock();
        audit_.begin(scheduler_);
    }
    // wake_later() has unlock() wake the worker. Needs the lock.
    void wake_later(Worker& worker) {
        if (count_ < kFirst) {
            first_[count_++] = &worker;
        } else {
            more_.push_back(&worker);
        }
    }
    // wait_for() releases the lock until `condition` is notified or the time has passed, and takes it again.
    void wait_for(std::condition_variable_any& condition, std::chrono::nanoseconds time) {
        audit_.check(scheduler_);
        condition.wait_for(lock_, time);
        audit_.begin(scheduler_);
    }
    // wait() releases the lock until `condition` is notified and `has_happened()`, which is called under the lock.
    template <typename HasHappened>
    void wait(std::condition_variable_any& condition, const HasHappened& has_happened) {
        audit_.check(scheduler_);
        condition.wait(lock_, has_happened);
        audit_.begin(scheduler_);
    }

private:
    static constexpr int kFirst = 8;
    Scheduler& scheduler_;
    std::unique_lock<Mutex> lock_;
    SlotAudit audit_;
    Worker* first_[kFirst];
    int count_ = 0;
    std::vector<Worker*> more_;
};

}  // namespace treadle
