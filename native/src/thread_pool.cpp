#include "treadle/thread_pool.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "treadle/affinity.h"
#include "treadle/fp_mode.h"
#include "treadle/scheduler.h"
#include "treadle/section.h"
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

ThreadPool::ThreadPool(Scheduler& owner, const std::string& team, int team_id, Slots& slots, IdleWorkers& idle,
                       std::vector<int> cpus, std::vector<int> base_cpus)
    : owner_(owner),
      team_(team),
      team_id_(team_id),
      slots_(slots),
      idle_(idle),
      cpus_(std::move(cpus)),
      base_cpus_(std::move(base_cpus)) {}

Worker& ThreadPool::acquire_caller() {
    if (free_callers_.empty()) {
        free_callers_.reserve(callers_.size() + 1);
        callers_.push_back(std::make_unique<Worker>(owner_, slots_, Role::caller));
        free_callers_.push_back(callers_.back().get());
    }
    Worker& caller = *free_callers_.back();
    free_callers_.pop_back();
    caller.traced_team = team_id_;
    caller.borrows_slot = caller.may_return_loan = false;
    caller.lender = nullptr;
    caller.slot = -1;
    caller.slot_holder = &caller;
    return caller;
}

Worker* ThreadPool::start_compute() {
    const std::int64_t now = monotonic_ns();
    if (now < retry_start_ns_) return nullptr;
    try {
        Worker& worker = start(Role::compute);
        thread_fault_.clear();
        return &worker;
    } catch (const std::exception& fault) {
        retry_start_ns_ = now + kRetryStartNs;
        if (thread_fault_.empty()) std::fprintf(stderr, "treadle: %s; runs go on with fewer\n", fault.what());
        thread_fault_ = fault.what();
        return nullptr;
    }
}

Worker& ThreadPool::start_blocking() { return start(Role::blocking); }

Worker& ThreadPool::start(Role role) {
    auto& threads = role == Role::compute ? compute_ : blocking_;
    std::unique_ptr<Worker> worker;
    if (joined_.empty()) {
        worker = std::make_unique<Worker>(owner_, slots_, role);
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
    worker->traced_team = team_id_;
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
        throw NoThread("team '" + team_ + "': cannot start thread " + std::to_string(at + 1) + ": " +
                       std::strerror(fault) + "; lower intra_op / inter_op or raise the limit on threads");
    }
    Worker& made = **threads.insert(threads.begin() + at, std::move(worker));
    if (!base_cpus_.empty()) pin(made);
    return made;
}

void* ThreadPool::thread_main(void* argument) {
    auto& worker = *static_cast<Worker*>(argument);
    const char* kind = worker.role == Role::compute ? "-" : "-b";
    name_this_thread(worker.scheduler->name(), kind + std::to_string(worker.index));
    worker.fp_mode = get_fp_mode();
    worker.scheduler->serve(worker);
    return nullptr;
}

void ThreadPool::become_idle(Section& section, Worker& worker) {
    idle_.add(section, worker);
    if (compute_.size() > limit_) retire_surplus(section);
}

void ThreadPool::raise_limit(std::size_t workers) { limit_ = std::max(limit_, workers); }

bool ThreadPool::has_workers_for(int slots) const {
    return static_cast<int>(compute_.size()) + slots_.capacity().detached >= slots;
}

void ThreadPool::retire_surplus(Section& section) {
    while (compute_.size() > limit_ && compute_.back()->idle) {
        idle_.dismiss(section, *compute_.back());
        retired_.push_back(std::move(compute_.back()));
        compute_.pop_back();
    }
}

void ThreadPool::retire_blocking(Section& section) {
    for (auto& worker : blocking_) {
        idle_.dismiss(section, *worker);
        retired_.push_back(std::move(worker));
    }
    blocking_.clear();
}

void ThreadPool::retire_idle(Section& section) {
    for (auto* const threads : {&compute_, &blocking_}) {
        for (auto& worker : *threads) {
            if (!worker->idle) continue;
            idle_.dismiss(section, *worker);
            retired_.push_back(std::move(worker));
        }
        std::erase(*threads, nullptr);
    }
}

void ThreadPool::join_retired(Section& section) {
    std::vector<std::unique_ptr<Worker>> ending;
    ending.swap(retired_);
    if (ending.empty()) return;
    section.unlock();
    for (const auto& worker : ending) pthread_join(worker->thread, nullptr);
    section.lock();
    for (auto& worker : ending) joined_.push_back(std::move(worker));
}

void ThreadPool::detach(const Context& run) {
    for (auto* const threads : {&compute_, &blocking_}) {
        for (auto& worker : *threads) {
            if (worker->host_run != &run) continue;
            worker->detached = owner_.shared_from_this();
            pthread_detach(worker->thread);
            slots_.detach(*worker);
            detached_.push_back(std::move(worker));
        }
        std::erase(*threads, nullptr);
    }
}

void ThreadPool::end_detached(Worker& worker) {
    slots_.release_detached(worker);
    const auto matches = [&](const auto& detached) { return detached.get() == &worker; };
    const auto at = std::find_if(detached_.begin(), detached_.end(), matches);
    joined_.push_back(std::move(*at));
    detached_.erase(at);
}

// Pins a worker that has just started or whose team's CPUs have changed. A thread inherits the CPUs of the thread that
// starts it, so a worker without a CPU of its own gets base_cpus_ back.
void ThreadPool::pin(Worker& worker) {
    const bool own = worker.role == Role::compute && !cpus_.empty();
    const std::vector<int> one{own ? cpus_[static_cast<std::size_t>(worker.index) % cpus_.size()] : 0};
    const int fault = pin_thread(worker.thread, own ? one : base_cpus_);
    if (fault == 0) worker.kept_off.forget();
    if (fault == 0 || !pin_fault_.empty()) return;
    pin_fault_ = "cannot pin worker " + std::to_string(worker.index) + " to CPU " + std::to_string(one.front()) + ": " +
                 std::strerror(fault) + "; it runs unpinned";
    std::fprintf(stderr, "treadle: team '%s': %s\n", team_.c_str(), pin_fault_.c_str());
}

void ThreadPool::set_cpus(std::vector<int> cpus, std::vector<int> base) {
    cpus_ = std::move(cpus);
    base_cpus_ = std::move(base);
    pin_fault_.clear();
    for (const auto& worker : compute_) pin(*worker);
    for (const auto& worker : blocking_) pin(*worker);
}

void ThreadPool::describe(Status& status) const {
    status.workers = static_cast<int>(compute_.size());
    status.blocking = static_cast<int>(blocking_.size());
    status.abandoned = static_cast<int>(detached_.size());
    status.pin_fault = pin_fault_;
    status.thread_fault = thread_fault_;
}

}  // namespace treadle
