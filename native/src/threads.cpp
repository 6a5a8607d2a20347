// The threads of a team: starting, running, ending, pinning.
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
#include "treadle/cost.h"
#include "treadle/scheduler.h"
#include "treadle/trace.h"

namespace treadle {

namespace {

// After a worker could not be started, none is tried for so long.
constexpr std::int64_t kRetryStartNs = 1'000'000'000;

constexpr std::size_t kStackBytes = std::size_t{8} << 20;

// Linux takes at most 15 characters: the name of a long team is shortened, not the number behind it.
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

// Null if none can be started. Workers only help, so runs go on with the threads that there are.
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

// Null, and the run cancelled, if none can be started.
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
        worker = std::make_unique<Worker>(*this, role);
    } else {
        worker = std::move(joined_.back());
        joined_.pop_back();
        worker->role = role;
        worker->idle = false;
        worker->state.store(State::parked, std::memory_order_relaxed);  // published by the start of the thread
    }
    // The lowest that is free: strays leave gaps.
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
    // Signals are for the threads of the program that uses us.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
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
        // Relaxed: wait_for_work() has read or written this value with acquire.
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
            // The client that has been woken may have no CPU but this one. It needs it for some microseconds, and brings
            // its next run; else it would wait until the system takes the CPU away from us.
            if (std::exchange(worker.ended_run, false)) sched_yield();
        }
    }
}

Worker* Scheduler::acquire_caller() {
    if (free_callers_.empty()) {
        free_callers_.reserve(callers_.size() + 1);
        callers_.push_back(std::make_unique<Worker>(*this, Role::caller));
        return callers_.back().get();
    }
    Worker* worker = free_callers_.back();
    free_callers_.pop_back();
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

// Needs the lock. A thread takes on the CPUs of the one that starts it, so those without a CPU of their own get the
// ones that the pinning began from.
void Scheduler::pin(Worker& worker) {
    const bool own = worker.role == Role::compute && !cpus_.empty();
    const std::vector<int> one{own ? cpus_[static_cast<std::size_t>(worker.index) % cpus_.size()] : 0};
    const int fault = pin_thread(worker.thread, own ? one : base_cpus_);
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
