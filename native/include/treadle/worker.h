// Worker: a thread as the scheduler sees it, and how it waits.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "treadle/affinity.h"
#include "treadle/clock.h"
#include "treadle/fp_mode.h"
#include "treadle/memory.h"
#include "treadle/policy.h"
#include "treadle/watch.h"

namespace treadle {

class Scheduler;
class Slots;
struct Context;
struct Op;

// State of a worker. Only a holder of the scheduler's lock changes the first three states; the worker itself takes the
// lock to park. Both may leave `assigned` by compare-and-exchange: the worker, without the lock, to `working`, or a
// holder of the lock to `spinning` or `parked`. Only the worker leaves the last two.
enum class State : std::uint32_t {
    spinning,        // idle, polling this word
    park_requested,  // idle, told to park because runnable threads would exceed the slots
    parked,          // idle, asleep in the kernel until this word changes
    assigned,        // Worker::op is assigned to it, and may be revoked until it accepts
    working,         // has accepted Worker::op
    dismissed,       // a caller whose run has finished, or a thread that must end
};

// Role of a worker: the caller of a run, or a thread that the team started, for computing or for blocking tasks.
enum class Role { caller, compute, blocking };

// Worker is owned by its scheduler and lives as long as it, so a late wake-up never touches freed memory. The
// scheduler's lock guards the fields before `fp_mode`, except `state`. The worker's own thread may read them without it
// while it executes an op.
struct Worker {
    Worker(Scheduler& owner, Slots& its_slots, Role its_role) : scheduler(&owner), slots(&its_slots), role(its_role) {}

    Scheduler* const scheduler;
    Slots* const slots;            // of the scheduler's team
    Role role;
    int index = 0;                 // number of a thread in its team, from 1; 0 for callers
    Context* own_run = nullptr;    // caller: the run that it called; it works for no other
    bool idle = false;
    bool borrows_slot = false;     // nested caller on the slot of the worker around it
    bool may_return_loan = false;  // nested caller: may return the slot that it borrows, see Slots::return_loan()
    Worker* lender = nullptr;      // nested caller: the worker whose slot it has returned
    bool returns_soon = false;     // caller: called this run soon after its last one
    bool returns_at_once = false;  // caller: so soon that a worker which has been idle since then still spins
    int slot = -1;                 // held while working; blocking workers have -1 - index, those that borrow -1
    Worker* slot_holder = this;    // the worker whose slot it is: for a nested caller the outermost one that borrows none
    int traced_team = 0;           // team of `slot`; for a nested caller it may be another team than the scheduler's
    // A spinning worker reads `state` all the time, so it begins a cache line.
    alignas(64) std::atomic<State> state{State::parked};
    Op* op = nullptr;                 // written before `state` becomes `assigned`; read by the worker in `working`
    bool is_listed = false;           // is in IdleWorkers::assigned_
    bool ended_run = false;           // compute worker: left the last op of a run; see WorkerLoop::serve()
    bool is_resting = false;          // is inside a step that only waits, see Resting
    bool was_woken = false;           // compute worker: to help, and it is not known yet whether it came in time
    KeptOff kept_off;                 // compute worker: off the CPU of the thread that woke it to help
    const Context* host_run = nullptr;  // the run whose host step the thread is in
    std::shared_ptr<Scheduler> detached;  // set once that run is abandoned: the thread ends with the step

    // Only the thread itself uses the fields below.
    alignas(64) FpMode fp_mode = get_fp_mode();
    Block scratch;
    Context* current_run = nullptr;  // the run whose host step this thread is in
    std::int64_t iteration = -1;     // of the runs that the step calls, if it is in a loop; see Context::iteration
    Watch watch;
    SpinRecord spin_record;
    pthread_t thread{};
};

// is_spinning() needs the lock of the worker's scheduler.
inline bool is_spinning(const Worker& worker) {
    return worker.state.load(std::memory_order_relaxed) == State::spinning;  // enters and leaves that state under the lock
}

// current_worker() returns the calling thread's worker while the thread is inside a host step, else null.
Worker*& current_worker();

// check_run() throws RunTimeout or RunCancelled if the run around the calling step has ended or should end. Long host
// steps call it. It does nothing outside steps, and takes no lock.
void check_run();
// begin_iteration() calls check_run(), and then gives runs that the calling step calls this number in their events.
void begin_iteration(std::int64_t number);

// Resting tells the team whose slot the calling thread holds that the thread only waits. A step holds one while it
// waits for a run in another thread. Construction and destruction take the scheduler's lock; they do nothing outside
// steps.
class Resting {
public:
    Resting();
    ~Resting();
    Resting(const Resting&) = delete;
    Resting& operator=(const Resting&) = delete;

private:
    Worker* const slot_holder_;
};

// cpu_relax() tells the CPU that this is a spin loop.
void cpu_relax();
// spin() polls the state of the calling thread's worker until it is no longer `spinning`, or until `end`. Returns false
// if time ran out. Takes no lock.
bool spin(const Worker& worker, Clock::time_point end);
// sleep_while_parked() blocks the calling thread, whose worker this is, until the state is no longer `parked`, for
// `timeout` (for ever if negative), or spuriously. Must be called without a lock.
void sleep_while_parked(Worker& worker, std::chrono::nanoseconds timeout);
// wake() ends sleep_while_parked(). Any thread may call it, after changing the state, with or without the lock.
void wake(Worker& worker);

}  // namespace treadle
