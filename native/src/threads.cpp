// The threads of a team: how they start, what they execute, how they end, and where they are pinned.
#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "treadle/affinity.h"
#include "treadle/chaos.h"
#include "treadle/scheduler.h"
#include "treadle/trace.h"

namespace treadle {

namespace {

// After a failed attempt to start a compute worker, none is made for this long.
constexpr std::int64_t kRetryStartNs = 1'000'000'000;

constexpr std::size_t kStackBytes = std::size_t{8} << 20;

// Linux takes at most 15 characters: a long team name is shortened, but not the number behind it.
void name_this_thread(const std::string& team, const std::string& suffix) {
    const std::string name = "treadle-" + team;
#if defined(__APPLE__)
    pthread_setname_np((name + suffix).c_str());
#else
    constexpr std::size_t kLongest = 15;
    const std::size_t kept = kLongest - std::min(suffix.size(), kLongest);
    pthread_setname_np(pthread_self(), (name.substr(0, kept) + suffix).c_str());
#endif
}

}  // namespace

// Starts a compute worker. Returns null if none can be started; runs then go on with the threads that exist.
Worker* Scheduler::start_worker() {
    const std::int64_t now = monotonic_ns();
    if (now < retry_start_ns_) return nullptr;
    try {
        Worker* const worker = start_thread(Role::compute);
        thread_fault_.clear();
        return worker;
    } catch (const std::exception& fault) {
        retry_start_ns_ = now + kRetryStartNs;
        if (thread_fault_.empty()) std::fprintf(stderr, "treadle: %s; runs go on with fewer\n", fault.what());
        thread_fault_ = fault.what();
        return nullptr;
    }
}

// Starts a blocking worker for the run. If none can be started, cancels the run and returns null.
Worker* Scheduler::start_blocking_for(Section& section, Context& run) {
    try {
        return start_thread(Role::blocking);
    } catch (...) {
        cancel(section, run, std::current_exception(), Cause::own);
        return nullptr;
    }
}

Worker* Scheduler::start_thread(Role role) {
    auto& threads = role == Role::compute ? workers_ : blocking_;
    std::unique_ptr<Worker> worker;
    if (joined_.empty()) {
        worker = std::make_unique<Worker>(*this, slots_, role);
    } else {
        worker = std::move(joined_.back());
        joined_.pop_back();
        worker->role = role;
        worker->idle = false;
        worker->was_woken = false;
        worker->kept_off.forget();
        // Relaxed: pthread_create() publishes it to the new thread.
        worker->state.store(State::parked, std::memory_order_relaxed);
    }
    // The lowest free index: detached workers leave gaps.
    const auto gap = std::find_if(threads.begin(), threads.end(), [&, next = 1](const auto& other) mutable {
        return other->index != next++;
    });
    const auto at = gap - threads.begin();
    worker->index = static_cast<int>(at) + 1;
    worker->traced_team = id_;
    threads.reserve(threads.size() + 1);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    // The new thread blocks signals: they are for the threads of the program that uses the core. Not those that an
    // instruction of its own raises: the system would end the process, whatever their handler (see mapped_file.h).
    sigset_t blocked;
    sigset_t before;
    sigfillset(&blocked);
    for (const int raised : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&blocked, raised);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    const int fault = pthread_create(&worker->thread, &attributes, thread_main, worker.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (fault != 0) {
        joined_.push_back(std::move(worker));
        throw NoThread("team '" + name_ + "': cannot start thread " + std::to_string(at + 1) + ": " +
                       std::strerror(fault) + "; lower intra_op / inter_op or raise the limit on threads");
    }
    Worker& made = **threads.insert(threads.begin() + at, std::move(worker));
    if (!base_cpus_.empty()) pin(made);
    return &made;
}

void* Scheduler::thread_main(void* argument) {
    auto& worker = *static_cast<Worker*>(argument);
    Scheduler& scheduler = *worker.scheduler;
    const char* kind = worker.role == Role::compute ? "-" : "-b";
    name_this_thread(scheduler.name_, kind + std::to_string(worker.index));
    worker.fp_mode = get_fp_mode();
    scheduler.worker_loop(worker);
    return nullptr;
}

void Scheduler::worker_loop(Worker& worker) {
    for (;;) {
        wait_for_work(worker);
        // Relaxed: wait_for_work() has loaded or exchanged this value with acquire.
        if (worker.state.load(std::memory_order_relaxed) == State::dismissed) {
            worker.scratch = Block();
            return;
        }
        for (Op* op = worker.op; op != nullptr;) {
            execute_op(worker, *op);
            {
                Section section(*this);
                if (worker.detached) {
                    end_detached_worker(section, worker, *op->run);
                    return;
                }
                op = advance(section, worker, *op);
            }
            // The client that was woken may have no other CPU than this one. It needs the CPU for some microseconds to
            // call its next run. Without the yield it would wait until the system preempts this worker.
            if (std::exchange(worker.ended_run, false)) sched_yield();
        }
    }
}

// Returns a worker for the calling thread that holds nothing.
Worker* Scheduler::acquire_caller() {
    if (free_callers_.empty()) {
        free_callers_.reserve(callers_.size() + 1);
        callers_.push_back(std::make_unique<Worker>(*this, slots_, Role::caller));
        free_callers_.push_back(callers_.back().get());
    }
    Worker* const worker = free_callers_.back();
    free_callers_.pop_back();
    worker->traced_team = id_;
    worker->borrows_slot = worker->may_return_loan = false;
    worker->lender = nullptr;
    worker->slot = -1;
    worker->slot_holder = worker;
    return worker;
}

void Scheduler::retire_surplus(Section& section) {
    while (workers_.size() > worker_limit_ && workers_.back()->idle) {
        dismiss(section, *workers_.back());
        retired_.push_back(std::move(workers_.back()));
        workers_.pop_back();
    }
}

void Scheduler::join_retired(Section& section) {
    std::vector<std::unique_ptr<Worker>> ending;
    ending.swap(retired_);
    if (ending.empty()) return;
    section.unlock();
    for (const auto& worker : ending) pthread_join(worker->thread, nullptr);
    section.lock();
    for (auto& worker : ending) joined_.push_back(std::move(worker));
}

// Pins a worker that has just started or whose team's CPUs have changed. A thread inherits the CPUs of the thread that
// starts it, so a worker without a CPU of its own gets base_cpus_ back.
void Scheduler::pin(Worker& worker) {
    const bool own = worker.role == Role::compute && !cpus_.empty();
    const std::vector<int> one{own ? cpus_[static_cast<std::size_t>(worker.index) % cpus_.size()] : 0};
    const int fault = pin_thread(worker.thread, own ? one : base_cpus_);
    if (fault == 0) worker.kept_off.forget();
    if (fault == 0 || !pin_fault_.empty()) return;
    pin_fault_ = "cannot pin worker " + std::to_string(worker.index) + " to CPU " + std::to_string(one.front()) + ": " +
                 std::strerror(fault) + "; it runs unpinned";
    std::fprintf(stderr, "treadle: team '%s': %s\n", name_.c_str(), pin_fault_.c_str());
}

void Scheduler::set_cpus(std::vector<int> cpus, std::vector<int> base) {
    const Section section(*this);
    cpus_ = std::move(cpus);
    base_cpus_ = std::move(base);
    pin_fault_.clear();
    for (const auto& worker : workers_) pin(*worker);
    for (const auto& worker : blocking_) pin(*worker);
}

}  // namespace treadle
