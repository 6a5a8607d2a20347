// Scheduler: the threads of one team and what each of them does next. native/README.md has the argument for it.
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
#include "treadle/engine.h"
#include "treadle/worker.h"
#include "treadle/mutex.h"
#include "treadle/slots.h"

namespace treadle {

// Request is what one run asks for.
struct Request {
    Request() = default;
    Request(Limits limits) : asked(limits) {}  // NOLINT: a run that asks for limits alone

    Limits asked;                          // 0 stands for the team's
    int priority = 0;                      // higher first, equal ones by turns; a nested run has at least its caller's
    Clock::time_point deadline = kNever;   // ends the run with RunTimeout
    std::shared_ptr<CancelToken> token;    // ends the run with RunCancelled
    std::shared_ptr<const RunLimits> own;     // go before `asked`
    std::shared_ptr<const RunLimits> common;  // count where neither says anything
    bool is_part = false;                  // of the run around the calling step: on its team, and with its limits where none are said
    void (*poll)() = nullptr;              // called on the calling thread now and then; what it throws ends the run
    // If set, a run that is ended from outside may be abandoned: run() throws while host steps of it go on in other
    // threads. Called on the calling thread then, without a lock; gives what all that these steps may touch lives as
    // long as: the program, the bound memory. It is dropped by the thread that leaves the last of them. Must not throw.
    std::function<std::shared_ptr<void>()> keep;
};

// Status is what a team is doing.
struct Status {
    int workers = 0;   // threads started and alive, callers excluded
    int blocking = 0;  // threads for blocking tasks, likewise
    int abandoned = 0; // threads in host steps of abandoned runs, which end with these
    int slots = 0;    // in use
    int spinning = 0;  // threads that are idle and not parked
    int runs = 0;      // in progress, waiting ones included
    int waiting = 0;   // runs that nobody works for
    std::string pin_fault;  // why a worker runs unpinned though it should not; empty if all are where they should be
    std::string thread_fault;  // why there are fewer workers than there should be; empty if there are enough
};

// NoThread fails a run that needs a thread of its own, for a blocking task, where the system lets none start.
struct NoThread : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Scheduler is made by Team and used through it. All public functions may be called from any thread; none may be
// called while holding another lock of the core.
class Scheduler : public std::enable_shared_from_this<Scheduler> {
public:
    // `cpus` and `base_cpus` as in set_cpus().
    Scheduler(std::string name, Limits limits, std::chrono::nanoseconds spin_limit, std::vector<int> cpus,
              std::vector<int> base_cpus);
    ~Scheduler();  // needs close() before
    Scheduler(const Scheduler&) = delete;
    Scheduler& operator=(const Scheduler&) = delete;

    // run() executes the context's program and returns when all its tasks have finished, or rethrows the first failure
    // when nothing of the run is in progress any more. It then leaves the context to its caller, unless it was abandoned
    // (see Request::keep), and some thread is still inside. Throws std::runtime_error if closed.
    void run(std::unique_ptr<Context>& context, const Request& request);
    // cancel_run() ends the run with that Context::run_id with `failure`, if it is still there.
    void cancel_run(std::uint64_t run_id, std::exception_ptr failure);
    // set_limits() takes effect at the next op boundary. Joins the workers that are now too many and idle.
    void set_limits(Limits limits);
    // revise_runs() has runs in progress look at their RunLimits and caps again, with effect at the next op boundary.
    void revise_runs();
    // close() refuses new runs, waits for those in progress (which first get cancelled if `cancel`) and joins the
    // workers. Throws std::runtime_error if called from inside one of its own steps.
    void close(bool cancel);
    // end_with_process() is close(true), but waits for host steps no longer than `until`. Returns whether any thread is
    // left in one, or in what follows it; the scheduler must then never be freed.
    bool end_with_process(Clock::time_point until);
    // set_spin() takes effect at once, also for who is spinning.
    void set_spin(std::chrono::nanoseconds limit);
    // set_cpus() pins worker i to cpus[i % size], none if `cpus` is empty; other threads of the team keep to `base`.
    // Callers are never pinned. A failed pin is one line on stderr and Status::pin_fault, and the worker runs where it
    // may.
    void set_cpus(std::vector<int> cpus, std::vector<int> base);
    Status status();
    // begin_resting() and end_resting() are for Resting, called by the thread of `holder`.
    void begin_resting(Worker& holder);
    void end_resting(Worker& holder);
    // is_here() is false in a child made by fork(), where its threads do not exist.
    bool is_here() const;

private:
    // Section holds the lock, and after releasing it wakes those who were given something meanwhile.
    class Section;

    // scheduler.cpp: runs
    void begin(Context& run, const Request& request, Worker& caller);
    void end(Section& section, Context& run, Worker& caller);
    void walk(Section& section, Context& run, Worker& caller);
    void share(Section& section, Context& run, Worker& caller);
    void drive(Section& section, Context& run, Worker& caller, Engine engine);
    void come_back(Worker& caller);
    bool may_walk(const Context& run, const Worker& caller) const;
    void enlist(Context& run, std::size_t done);
    void update_caps();
    Limits limits_of(const Context& run) const;
    enum class Cause { own, outside };
    void cancel(Section& section, Context& run, std::exception_ptr failure, Cause cause);
    void cancel_all(Section& section);
    void revise(Section& section);
    void finish_if_done(Section& section, Context& run);

    // abandon.cpp: runs whose callers do not wait for their host steps
    bool can_be_abandoned(const Context& run) const;
    void abandon(Context& run);
    bool part(Context& run);
    void depart(Section& section, Worker& worker, Context& run);
    bool is_only_in_host_steps() const;

    // schedule.cpp: who does what; all need the lock
    double shareable_ns(const Context& run) const;
    double left_to_share_ns(const Context& run) const;
    int max_slots() const;
    int working() const;
    int working_beside(const Worker& worker) const;
    bool has_permit_for(const Context& run, int others_working) const;
    bool can_start(const Context& run, int others_working) const;
    Op* start(Context& run, std::uint32_t task);
    bool may_help(const Context& run, double gain_ns, int free_slots);
    Context* run_to_serve(const Worker& worker);
    Op* pick(Worker& worker);
    Op* best_to_join(const Context& run, double worth) const;
    void leave(Section& section, Op& op);
    template <typename Wanted>
    Worker* revoke_one(const Wanted& wanted);
    Op* take_over_op(const Worker& for_whom);
    void reclaim_slot(const Context& for_whom);
    void revoke_all(Section& section, Context& run);
    Op* after(Section& section, Worker& worker, Op& op);
    void dispatch(Section& section);
    bool dispatch_start(Section& section, Context& run);
    bool dispatch_join(Section& section, Context& run);
    void dispatch_blocking(Section& section);
    Worker* choose(Section& section, Context& run, double gain_ns);
    Worker* idle_worker() const;
    bool has_workers_for(int slots) const;
    bool is_crowded(const Context& run);
    Worker* worker_for_crowd();
    int unpark(Section& section, int most);
    int missing(const Context& run);
    void unpark_for_run(Section& section, const Context& run);
    void unpark_for_short_runs(Section& section, const Context& run);
    bool must_yield(const Worker& worker) const;
    bool is_for_caller(const Context& run) const;
    bool is_starved(const Context& run) const;
    std::int64_t turn_end_ns(const Context& run) const;
    void stand_in_line(Context& run);
    void end_turn_if_over(Context& run);

    // threads.cpp and parking.cpp: threads, places, waiting and assigning; all but the static ones and wait_for_work() need the lock
    Worker* start_worker();
    Worker* start_blocking_for(Section& section, Context& run);
    Worker* start_thread(Role role);
    static void* thread_main(void* worker);
    void worker_loop(Worker& worker);
    Worker* acquire_caller();
    bool has_slot_for(const Worker& worker) const;
    void reserve_slot(std::int64_t ns);
    int reserved_slots();
    void take_slot(Worker& worker);
    void release_slot(Worker& worker);
    bool may_spin(const Worker& worker, int slots_used) const;
    void become_idle(Section& section, Worker& worker);
    static void count_as_resting(const Worker& worker);
    static void count_as_running(const Worker& worker);
    void dispatch_while_resting();
    void leave_idle(Worker& worker);
    void assign(Section& section, Worker& worker, Op* op);
    bool revoke(Worker& worker);
    static bool accept(Worker& worker);
    void dismiss(Section& section, Worker& worker);
    void set_state(Section& section, Worker& worker, State state);
    void park_surplus_spinners();
    void retire_surplus(Section& section);
    void join_retired(Section& section);
    void wait_for_work(Worker& worker);
    void park(Worker& worker);
    void check_watch_while_waiting(Worker& worker);
    void spin_or_park(Worker& worker, Clock::time_point began);
    void pin(Worker& worker);

    // execute.cpp: running steps; without the lock
    class InHost;
    void work_on(Worker& worker, Op& op);
    void call_host(Worker& worker, Context& run, const Step& step);
    void run_steps(Worker& worker, Context& run, const Task& task, void* scratch);
    std::size_t walk_tasks(Worker& worker, Context& run, std::size_t from, std::uint64_t epoch, std::int64_t until_ns);

    // engine.cpp: runs whose ops are spread by another runtime; without the lock
    struct Spreading {
        Engine engine;
        int width;
        std::uint64_t generation;  // of the process that drives: the engine's threads are not in a child made by fork()
    };
    std::size_t drive_tasks(Worker& caller, Context& run, std::size_t from, std::uint64_t epoch, Spreading how);
    void spread(Worker& caller, Op& op, Spreading how);
    void work_on_engine_thread(Op& op);

    Mutex mutex_;
    // Everything below is guarded by mutex_, but for constants and atomics.
    const std::string name_;
    const int id_;
    const std::uint64_t generation_;
    std::vector<int> cpus_;       // of workers; empty: unpinned
    std::vector<int> base_cpus_;  // of all others; empty: nothing was ever pinned
    std::string pin_fault_;       // the first since cpus_ were set; empty if there is none
    std::string thread_fault_;    // of the last worker that was to be started; empty if it could be
    std::int64_t retry_start_ns_ = 0;  // no worker is started before
    Limits limits_;
    int slot_limit_ = 1;  // of limits_ and what active runs ask for, the most
    int permit_limit_ = 1;
    Slots slots_;
    int permits_used_ = 0;            // in progress, without those on lent tokens
    int blocking_ops_ = 0;
    int spinners_ = 0;       // idle workers that watch their word
    int detached_slots_ = 0;   // held by detached_
    // Slots whose holders rest, without stray ones but for the guests of strays, which end soon. Changed under the lock of
    // the team that the holder waits in, and relaxed everywhere: who has added to it takes this team's lock next, in
    // dispatch_while_resting(), so what it allows is not missed; who sees it too late when it falls lets one more work for an op.
    std::atomic<int> resting_{0};
    std::deque<std::int64_t> reservations_;  // until when places are kept for callers whose runs have ended; earliest first
    double forgone_ns_ = 0;  // what help would have saved runs that were too short to get it, since some last got it so
    bool closing_ = false;
    bool left_ = false;      // threads were left behind at the end of the process: there is nothing more to close
    std::deque<Context*> runs_;  // in the order they are served: by priority, then by whose turn began first
    std::vector<Worker*> idle_;  // callers and workers; the last one became idle last
    std::vector<Worker*> idle_blocking_;
    std::vector<Worker*> assigned_;  // all workers in the state `assigned`, and some that have left it
    std::deque<std::pair<Context*, std::uint32_t>> blocking_queue_;
    std::vector<std::unique_ptr<Worker>> callers_;
    std::vector<Worker*> free_callers_;
    std::vector<std::unique_ptr<Worker>> workers_;   // index i - 1 is worker i
    std::vector<std::unique_ptr<Worker>> blocking_;
    std::vector<std::unique_ptr<Worker>> detached_;    // in host steps of abandoned runs; each thread joins itself
    std::vector<std::unique_ptr<Worker>> retired_;   // dismissed, to be joined
    std::vector<std::unique_ptr<Worker>> joined_;    // ended; kept because a late wake() may still name one
    std::size_t workers_wanted_ = 0;                 // more than these end when idle
    std::condition_variable_any quieter_;  // a run, or a stray, has ended
    // Bumped when serial walks must come and look: limits changed, a run starves, who rested goes on. They load it relaxed
    // as a hint and then take the lock, which orders the rest, as but for the last it is bumped under it too.
    std::atomic<std::uint64_t> epoch_{0};
    // How long the idle spin. Relaxed everywhere: a setting.
    std::atomic<std::int64_t> spin_ns_;
};

// Section is the only way to hold the scheduler's lock.
class Scheduler::Section {
public:
    explicit Section(Scheduler& scheduler) : lock_(scheduler.mutex_) {}
    ~Section() { unlock(); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

    void unlock() {
        if (!lock_.owns_lock()) return;
        lock_.unlock();
        for (int i = 0; i < count_; ++i) wake(*first_[i]);
        for (Worker* worker : more_) wake(*worker);
        count_ = 0;
        more_.clear();
    }
    void lock() { lock_.lock(); }
    void wake_later(Worker& worker) {
        if (count_ < kFirst) {
            first_[count_++] = &worker;
        } else {
            more_.push_back(&worker);
        }
    }
    std::unique_lock<Mutex>& raw() { return lock_; }

private:
    static constexpr int kFirst = 8;
    std::unique_lock<Mutex> lock_;
    Worker* first_[kFirst];
    int count_ = 0;
    std::vector<Worker*> more_;
};

}  // namespace treadle
