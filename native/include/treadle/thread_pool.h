// ThreadPool: the workers of a team and their threads: how these start, end, and are pinned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "treadle/idle_workers.h"
#include "treadle/slots.h"
#include "treadle/status.h"
#include "treadle/worker.h"

namespace treadle {

class Section;

// NoThread fails a run that needs a blocking worker when the system refuses to start a thread.
struct NoThread : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// ThreadPool owns all workers: those of callers, which have no thread of the pool, compute workers and blocking
// workers. A worker is never freed before the pool, since a late wake() may still name it. All functions need the
// scheduler's lock.
class ThreadPool {
public:
    // Names threads by the team. `cpus` and `base_cpus` are as in set_cpus(). The others outlive the pool.
    ThreadPool(Scheduler& owner, const std::string& team, int team_id, Slots& slots, IdleWorkers& idle,
               std::vector<int> cpus, std::vector<int> base_cpus);

    // acquire_caller() returns a worker for the calling thread, which holds nothing, until release_caller().
    Worker& acquire_caller();
    void release_caller(Worker& caller) { free_callers_.push_back(&caller); }
    // start_compute() starts a compute worker, whose thread calls Scheduler::serve(). Returns null if none can be
    // started; runs then go on with the threads that exist, and none is started for a second. Its worker is not listed
    // as idle.
    Worker* start_compute();
    // start_blocking() starts a blocking worker. Throws NoThread.
    Worker& start_blocking();
    // become_idle() has a worker without work wait, see IdleWorkers::add(), and ends threads beyond the limit.
    void become_idle(Section& section, Worker& worker);

    // set_limit() sets how many compute workers stay when they are idle; raise_limit() never lowers it.
    void set_limit(std::size_t workers) { limit_ = workers; }
    void raise_limit(std::size_t workers);
    // has_workers_for() returns whether compute workers and detached ones fill so many slots.
    bool has_workers_for(int slots) const;
    // retire_surplus() has idle compute workers beyond the limit end. retire_blocking() has all blocking workers end,
    // which must be idle. retire_idle() has all idle ones end.
    void retire_surplus(Section& section);
    void retire_blocking(Section& section);
    void retire_idle(Section& section);
    // join_retired() waits for the threads that these functions have ended. It releases the lock meanwhile.
    void join_retired(Section& section);

    // detach() gives the workers inside host steps of an abandoned run up: they keep their slots, their threads end
    // with the step and own a reference to the scheduler until then. end_detached() takes such a worker back, on its
    // own thread; another thread may use the worker once the lock is released.
    void detach(const Context& run);
    void end_detached(Worker& worker);
    bool has_detached() const { return !detached_.empty(); }

    // set_cpus() implements Scheduler::set_cpus().
    void set_cpus(std::vector<int> cpus, std::vector<int> base);
    // describe() sets what `status` says of threads.
    void describe(Status& status) const;

private:
    friend class SlotAudit;

    Worker& start(Role role);
    static void* thread_main(void* worker);
    void pin(Worker& worker);

    Scheduler& owner_;
    const std::string& team_;
    const int team_id_;
    Slots& slots_;
    IdleWorkers& idle_;
    std::vector<int> cpus_;       // of compute workers; empty: unpinned
    std::vector<int> base_cpus_;  // of all other threads; empty: nothing was ever pinned
    std::string pin_fault_;       // the first one since cpus_ was set, else empty
    std::string thread_fault_;    // of the last attempt to start a compute worker; empty if it succeeded
    std::int64_t retry_start_ns_ = 0;  // no compute worker is started before this time
    std::size_t limit_ = 0;            // compute workers beyond this number end when idle
    std::vector<std::unique_ptr<Worker>> callers_;
    std::vector<Worker*> free_callers_;
    std::vector<std::unique_ptr<Worker>> compute_;   // by index, which detached ones leave gaps in
    std::vector<std::unique_ptr<Worker>> blocking_;  // likewise
    std::vector<std::unique_ptr<Worker>> detached_;  // in host steps of abandoned runs; their threads are not joined
    std::vector<std::unique_ptr<Worker>> retired_;   // dismissed, to be joined
    std::vector<std::unique_ptr<Worker>> joined_;    // ended; kept because a late wake() may still name one
};

}  // namespace treadle
