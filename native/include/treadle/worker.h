// Worker: a thread as the scheduler sees it, and how it waits.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "treadle/clock.h"
#include "treadle/fp_mode.h"
#include "treadle/memory.h"
#include "treadle/watch.h"

namespace treadle {

class Scheduler;
struct Context;
struct Op;

// State of a worker. Only the worker itself leaves the last two; only a holder of the scheduler's lock leaves the
// first three. Both may leave `assigned`, by compare-and-exchange: the worker to `working`, the holder to `parked`.
enum class State : std::uint32_t {
    spinning,   // idle, watching this word
    park_requested, // idle, told to park because runnable threads would exceed the places
    parked,     // idle, asleep in the kernel until this word changes
    assigned,   // has been assigned Worker::op, and loses it again if somebody is free before it comes
    working,    // has taken up Worker::op
    dismissed,  // its run has finished (a caller), or it must end (a worker)
};

enum class Role { caller, compute, blocking };

// Worker is owned by its scheduler and lives as long as it, so a late wake-up never touches freed memory.
// Fields without a remark are guarded by the scheduler's lock.
struct Worker {
    Worker(Scheduler& owner, Role its_role) : scheduler(&owner), role(its_role) {}

    Scheduler* const scheduler;
    Role role;
    int index = 0;            // of the worker in its team: > 0; 0 for callers
    Context* own = nullptr;   // caller: the run it called; it works for no other
    bool idle = false;
    bool borrows_slot = false;       // caller inside a step of another run: brings the place it holds, gives it up never
    bool comes_back = false;  // caller: called this run right after its last one
    bool comes_at_once = false;  // and so soon that a worker which is idle since then still spins
    int slot = -1;           // held while working; blocking threads have -1 - index
    Worker* holder = this;    // whose place it is: for a guest that of the first worker around it which is none
    int traced_team = 0;      // team of `place`: not the scheduler's own for a guest
    // On a line of their own, as a spinning worker reads them all the time.
    alignas(64) std::atomic<State> state{State::parked};
    Op* op = nullptr;         // written before state becomes `assigned`; read by the worker once it is `working`
    bool is_listed = false;     // listed in Scheduler::assigned_
    bool has_ended_run = false;  // worker: by leaving its last op; see worker_loop()
    bool rests = false;       // inside a step that only waits: see Resting
    const Context* in_host = nullptr;   // the run whose host step the thread is in
    std::shared_ptr<Scheduler> detached;   // not null once that run has been abandoned: the thread ends with the step

    // Used by the thread itself alone.
    alignas(64) FpMode fp_mode = get_fp_mode();
    Block scratch;
    const Context* running = nullptr;  // the run whose host step this thread is in
    Watch watch;
    unsigned futile_spins = 0;         // in a row, during runs
    pthread_t thread{};
};

// current_worker() is what the calling thread is while it runs a step; null outside steps.
Worker*& current_worker();

// Resting tells the team whose place the calling thread holds, if any, that it only waits, for as long as this lives: for
// steps that wait for a run in another thread.
class Resting {
public:
    Resting();
    ~Resting();
    Resting(const Resting&) = delete;
    Resting& operator=(const Resting&) = delete;

private:
    Worker* const holder_;
};

// cpu_relax() tells the core that this is a spin loop.
void cpu_relax();
// sleep_while_parked() returns when the state is no longer `parked`, after `timeout` (none if negative), or by chance.
void sleep_while_parked(Worker& worker, std::chrono::nanoseconds timeout);
// wake() ends sleep_while_parked(); call after changing the state. Needs no lock.
void wake(Worker& worker);
// spin() watches the state while it is `spinning`, until `end`. Returns false if time ran out.
bool spin(const Worker& worker, Clock::time_point end);
// check_run() is for long host steps: throws RunTimeout or RunCancelled if the run that the calling thread is inside of
// has ended or should. Does nothing outside steps.
void check_run();

}  // namespace treadle
