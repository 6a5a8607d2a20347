#include "treadle/worker_loop.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "treadle/chaos.h"
#include "treadle/scheduler.h"
#include "treadle/section.h"

namespace treadle {

namespace {

// A spinning worker checks its watch and the spin limit this often.
constexpr std::chrono::milliseconds kLongestSpin{5};

}  // namespace

void WorkerLoop::serve(Worker& worker) {
    for (;;) {
        wait_for_work(worker);
        // Relaxed: wait_for_work() has loaded or exchanged this value with acquire.
        if (worker.state.load(std::memory_order_relaxed) == State::dismissed) {
            worker.scratch = Block();
            return;
        }
        for (Op* op = worker.op; op != nullptr;) {
            executor_.execute_op(worker, *op);
            {
                Section section(team_);
                if (worker.detached) {
                    end_detached(section, worker, *op->run);
                    return;
                }
                op = dispatcher_.advance(section, worker, *op);
            }
            // The client that was woken may have no other CPU than this one. It needs the CPU for some microseconds to
            // call its next run. Without the yield it would wait until the system preempts this worker.
            if (std::exchange(worker.ended_run, false)) sched_yield();
        }
    }
}

// Ends a worker that was detached from an abandoned run. The scheduler may be destroyed at the end of this function,
// since the thread's own reference may be the last.
void WorkerLoop::end_detached(Section& section, Worker& worker, Context& run) {
    const std::shared_ptr<Scheduler> self = std::move(worker.detached);
    const Block scratch = std::move(worker.scratch);
    std::unique_ptr<Context> last(dispatcher_.end_detached(section, worker, run) ? &run : nullptr);
    section.unlock();
    chaos_point();
    if (last) release(std::move(last));
}

void WorkerLoop::wait_for_work(Worker& worker) {
    auto began = Clock::now();
    for (;;) {
        // Acquire, partner: the exchange in IdleWorkers::set_state(), for a dismissed worker, and for `kept_off`, begun
        // before it.
        const State state = worker.state.load(std::memory_order_acquire);
        if (worker.kept_off.is_on()) {
            // The thread is awake. Before any step: threads that a host step starts have the CPUs of this one.
            const Section section(team_);
            worker.kept_off.end(pthread_self());
        }
        switch (state) {
            case State::spinning:
                spin_or_park(worker, began);
                break;
            case State::park_requested:
                park(worker);
                break;
            case State::parked:
                if (worker.borrows_slot) worker.slot_holder->scheduler->dispatch_while_resting();
                sleep_while_parked(
                    worker, worker.watch.time_to_check(worker.watch.is_on() ? Clock::now() : Clock::time_point()));
                began = Clock::now();
                break;
            case State::assigned:
                if (IdleWorkers::accept(worker)) return;
                continue;
            case State::working:
            case State::dismissed:
                return;
        }
        if (worker.watch.is_on()) check_watch(worker);
    }
}

void WorkerLoop::spin_or_park(Worker& worker, Clock::time_point began) {
    // Read in every round, so that a change reaches spinning workers.
    const auto limit = worker.spin_record.limit(team_.idle.spin_limit());
    const auto now = Clock::now();
    const auto left = limit - (now - began);
    if (left <= left.zero()) {
        park(worker);
    } else if (spin(worker, now + std::min<std::chrono::nanoseconds>(left, kLongestSpin))) {
        worker.spin_record.note_answered();
    } else if (left <= kLongestSpin) {
        park(worker);
    }
}

void WorkerLoop::park(Worker& worker) {
    const Section section(team_);
    team_.idle.park(worker, !team_.runs.all().empty());
}

void WorkerLoop::check_watch(Worker& worker) {
    try {
        worker.watch.check(Clock::now());
    } catch (...) {
        Section section(team_);
        dispatcher_.cancel(section, *worker.own_run, std::current_exception(), Cause::external);
    }
}

}  // namespace treadle
