// The threads of a team: starting, waiting, being given work, ending.
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

// A spinning member looks this often at what else may concern it.
constexpr std::chrono::milliseconds kLongestSpin{5};

// Where another process takes one of the CPUs, two threads of a team share the other, and who spins keeps the very
// thread from running that it waits for. So after a spin that ran out during a run the next ones are short, until one
// of them, or the full one that is tried now and then, is answered.
constexpr unsigned kFutileSpinFraction = 16;
constexpr unsigned kFutileSpinsPerProbe = 8;

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
Member* Scheduler::start_worker() {
    const std::int64_t now = monotonic_ns();
    if (now < retry_start_ns_) return nullptr;
    try {
        Member* const worker = start_thread(Role::worker);
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
Member* Scheduler::start_blocking_for(Section& section, Context& run) {
    try {
        return start_thread(Role::blocking);
    } catch (...) {
        cancel(section, run, std::current_exception(), Cause::own);
        return nullptr;
    }
}

Member* Scheduler::start_thread(Role role) {
    auto& threads = role == Role::worker ? workers_ : blocking_;
    std::unique_ptr<Member> member;
    if (joined_.empty()) {
        member = std::make_unique<Member>(*this, role);
    } else {
        member = std::move(joined_.back());
        joined_.pop_back();
        member->role = role;
        member->idle = false;
        member->state.store(State::parked, std::memory_order_relaxed);  // published by the start of the thread
    }
    // The lowest that is free: strays leave gaps.
    const auto gap = std::find_if(threads.begin(), threads.end(), [&, next = 1](const auto& other) mutable {
        return other->index != next++;
    });
    const auto at = gap - threads.begin();
    member->index = static_cast<int>(at) + 1;
    member->traced_team = id_;
    threads.reserve(threads.size() + 1);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    // Signals are for the threads of the program that uses us.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int fault = pthread_create(&member->thread, &attributes, thread_main, member.get());
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
    if (fault != 0) {
        joined_.push_back(std::move(member));
        throw NoThread("team '" + name_ + "': cannot start thread " + std::to_string(at + 1) + ": " +
                       std::strerror(fault) + "; lower intra_op / inter_op or raise the limit on threads");
    }
    Member& made = **threads.insert(threads.begin() + at, std::move(member));
    if (!base_cpus_.empty()) pin(made);
    return &made;
}

void* Scheduler::thread_main(void* argument) {
    auto& member = *static_cast<Member*>(argument);
    Scheduler& scheduler = *member.scheduler;
    const char* kind = member.role == Role::worker ? "-" : "-b";
    name_this_thread(scheduler.name_, kind + std::to_string(member.index));
    member.fp_mode = get_fp_mode();
    scheduler.worker_loop(member);
    return nullptr;
}

void Scheduler::worker_loop(Member& member) {
    for (;;) {
        wait(member);
        // Relaxed: wait() has read or written this value with acquire.
        if (member.state.load(std::memory_order_relaxed) == State::dismissed) {
            member.scratch = Block();
            return;
        }
        for (Op* op = member.op; op != nullptr;) {
            work_on(member, *op);
            {
                Section section(*this);
                if (member.stray) {
                    depart(section, member, *op->run);
                    return;
                }
                op = after(section, member, *op);
            }
            // The client that has been woken may have no CPU but this one. It needs it for some microseconds, and brings
            // its next run; else it would wait until the system takes the CPU away from us.
            if (std::exchange(member.has_ended_run, false)) sched_yield();
        }
    }
}

Member* Scheduler::take_caller_member() {
    if (free_callers_.empty()) {
        free_callers_.reserve(caller_members_.size() + 1);
        caller_members_.push_back(std::make_unique<Member>(*this, Role::caller));
        return caller_members_.back().get();
    }
    Member* member = free_callers_.back();
    free_callers_.pop_back();
    return member;
}

bool Scheduler::has_place_for(const Member& member) const { return member.guest || places_.used() < most_places(); }

// Keeps one this long for a caller whose run has just finished.
void Scheduler::keep_place(std::int64_t ns) {
    kept_places();
    const std::int64_t until = monotonic_ns() + ns;
    returns_.insert(std::upper_bound(returns_.begin(), returns_.end(), until), until);
}

// How many are kept.
int Scheduler::kept_places() {
    if (returns_.empty()) return 0;
    const std::int64_t now = monotonic_ns();
    while (!returns_.empty() && returns_.front() <= now) returns_.pop_front();
    return static_cast<int>(returns_.size());
}

void Scheduler::take_place(Member& member) {
    if (member.guest) return;
    if (member.role == Role::blocking) {
        member.place = -1 - member.index;
        return;
    }
    member.place = places_.take(member.index);
    calm_spinners();
}

void Scheduler::give_back_place(Member& member) {
    if (member.guest || member.place < 0) return;
    places_.give_back(member.place);
    member.place = -1;
}

bool Scheduler::may_spin(const Member& member, int places_used) const {
    if (member.role == Role::blocking) return false;
    if (spin_ns_.load(std::memory_order_relaxed) <= 0) return false;  // a setting
    return member.guest || places_used + spinners_ < most_places();
}

void Scheduler::go_idle(Section& section, Member& member) {
    member.idle = true;
    (member.role == Role::blocking ? idle_blocking_ : idle_).push_back(&member);
    const bool spins = may_spin(member, places_.used());
    if (spins && !member.guest) ++spinners_;
    if (!spins) fall_asleep(member);
    set_state(section, member, spins ? State::spinning : State::parked);
    if (workers_.size() > workers_wanted_) retire_surplus(section);
}

void Scheduler::stop_idling(Member& member) {
    if (!member.idle) return;
    member.idle = false;
    std::erase(member.role == Role::blocking ? idle_blocking_ : idle_, &member);
    const State state = member.state.load(std::memory_order_relaxed);  // written under the lock we hold
    if (!member.guest && state == State::spinning) --spinners_;
    if (state == State::parked) wake_up(member);
}

// A guest that is parked rests. To be called before it is, as it goes to see_to_others() then.
void Scheduler::fall_asleep(const Member& member) {
    if (member.guest) member.holder->scheduler->resting_.fetch_add(1, std::memory_order_relaxed);  // see resting_
}

void Scheduler::wake_up(const Member& member) {
    if (!member.guest) return;
    Scheduler& its = *member.holder->scheduler;
    its.resting_.fetch_sub(1, std::memory_order_relaxed);  // see resting_
    its.epoch_.fetch_add(1, std::memory_order_relaxed);    // see epoch_
}

// For who has begun to rest: what may go on because of that does.
void Scheduler::see_to_others() {
    if (!is_here()) return;
    Section section(*this);
    dispatch(section);
}

void Scheduler::rest(Member& holder) {
    if (!is_here()) return;
    Section section(*this);
    if (holder.place < 0 || holder.stray) return;
    holder.rests = true;
    resting_.fetch_add(1, std::memory_order_relaxed);  // see resting_
    dispatch(section);
}

void Scheduler::go_on(Member& holder) {
    if (!is_here()) return;
    const Section section(*this);
    if (!std::exchange(holder.rests, false)) return;
    resting_.fetch_sub(1, std::memory_order_relaxed);  // see resting_
    epoch_.fetch_add(1, std::memory_order_relaxed);    // see epoch_
}

Resting::Resting() : holder_(current_member() == nullptr ? nullptr : current_member()->holder) {
    if (holder_ != nullptr) holder_->scheduler->rest(*holder_);
}

Resting::~Resting() {
    if (holder_ != nullptr) holder_->scheduler->go_on(*holder_);
}

void Scheduler::give(Section& section, Member& member, Op* op) {
    stop_idling(member);
    take_place(member);
    member.op = op;
    set_state(section, member, State::given);
    if (member.awaited || member.role == Role::blocking) return;
    member.awaited = true;
    given_.push_back(&member);
}

// Takes back what a member was given and has not come to yet: it has no CPU, or is still waking up. False if it has
// come meanwhile. As it will run in any case, it spins then, so that the next gift costs no wake-up; but others are
// preferred.
bool Scheduler::take_back(Member& member) {
    const int without_it = places_.used() - (member.guest ? 0 : 1);
    const bool spins = may_spin(member, without_it);
    if (!spins) fall_asleep(member);
    chaos_point();
    State given = State::given;
    // Relaxed: the member has written nothing, and reads what the next gift holds by its own exchange in take_up().
    if (!member.state.compare_exchange_strong(given, spins ? State::spinning : State::parked,
                                              std::memory_order_relaxed)) {
        if (!spins) wake_up(member);
        return false;
    }
    give_back_place(member);
    member.idle = true;
    idle_.insert(idle_.begin(), &member);
    if (spins && !member.guest) ++spinners_;
    return true;
}

// Whether the member has its gift; false if that has been taken back.
bool Scheduler::take_up(Member& member) {
    chaos_point();
    State given = State::given;
    // Acquire: pairs with the exchange in set_state(); Member::op is read after it.
    return member.state.compare_exchange_strong(given, State::working, std::memory_order_acquire,
                                                std::memory_order_relaxed);
}

void Scheduler::dismiss(Section& section, Member& member) {
    stop_idling(member);
    set_state(section, member, State::dismissed);
}

void Scheduler::set_state(Section& section, Member& member, State state) {
    chaos_point();
    // Release: pairs with take_up(), which lets the member read Member::op, and with wait() for who is dismissed.
    const State before = member.state.exchange(state, std::memory_order_release);
    if (before == State::parked && state != State::parked) section.wake_later(member);
}

// Runnable threads, spinning ones included, are never more than the places.
void Scheduler::calm_spinners() {
    for (std::size_t i = 0; i < idle_.size() && spinners_ > 0 && places_.used() + spinners_ > most_places(); ++i) {
        Member& member = *idle_[i];
        // Both relaxed: read and written under the lock; the spinning member takes it before it believes this.
        if (member.guest || member.state.load(std::memory_order_relaxed) != State::spinning) continue;
        member.state.store(State::lying_down, std::memory_order_relaxed);
        --spinners_;
    }
}

void Scheduler::retire_surplus(Section& section) {
    while (workers_.size() > workers_wanted_ && workers_.back()->idle) {
        dismiss(section, *workers_.back());
        retired_.push_back(std::move(workers_.back()));
        workers_.pop_back();
    }
}

void Scheduler::join_retired(Section& section) {
    std::vector<std::unique_ptr<Member>> ending;
    ending.swap(retired_);
    if (ending.empty()) return;
    section.unlock();
    for (const auto& member : ending) pthread_join(member->thread, nullptr);
    section.lock();
    for (auto& member : ending) joined_.push_back(std::move(member));
}

// Returns once the member has taken up an op or has been dismissed. Called without the lock by idle members.
void Scheduler::wait(Member& member) {
    auto began = Clock::now();
    for (;;) {
        // Acquire: pairs with the exchange in set_state(), for who is dismissed.
        switch (member.state.load(std::memory_order_acquire)) {
            case State::spinning:
                spin_a_while(member, began);
                break;
            case State::lying_down:
                lie_down(member);
                break;
            case State::parked:
                if (member.guest) member.holder->scheduler->see_to_others();
                sleep_while_parked(member, until_look(member, member.watch.on ? Clock::now() : Clock::time_point()));
                began = Clock::now();
                break;
            case State::given:
                if (take_up(member)) return;
                continue;
            case State::working:
            case State::dismissed:
                return;
        }
        if (member.watch.on) look_while_waiting(member);
    }
}

void Scheduler::spin_a_while(Member& member, Clock::time_point began) {
    // Relaxed: a setting. It is looked at again and again, so that a change reaches those who spin.
    std::chrono::nanoseconds limit(spin_ns_.load(std::memory_order_relaxed));
    if (member.futile_spins % kFutileSpinsPerProbe != 0) limit /= kFutileSpinFraction;
    const auto now = Clock::now();
    const auto left = limit - (now - began);
    if (left <= left.zero()) {
        lie_down(member);
    } else if (spin(member, now + std::min<std::chrono::nanoseconds>(left, kLongestSpin))) {
        member.futile_spins = 0;
    } else if (left <= kLongestSpin) {
        lie_down(member);
    }
}

void Scheduler::lie_down(Member& member) {
    const Section section(*this);
    switch (member.state.load(std::memory_order_relaxed)) {  // written under the lock we hold
        case State::spinning:
            if (!member.guest) --spinners_;
            if (!runs_.empty()) ++member.futile_spins;
            [[fallthrough]];
        case State::lying_down:
            fall_asleep(member);
            member.state.store(State::parked, std::memory_order_relaxed);
            break;
        default:
            break;
    }
}

void Scheduler::look_while_waiting(Member& member) {
    try {
        look(member, Clock::now());
    } catch (...) {
        Section section(*this);
        cancel(section, *member.own, std::current_exception(), Cause::outside);
    }
}

// Needs the lock. A thread takes on the CPUs of the one that starts it, so those without a CPU of their own get the
// ones that the pinning began from.
void Scheduler::pin(Member& member) {
    const bool own = member.role == Role::worker && !cpus_.empty();
    const std::vector<int> one{own ? cpus_[static_cast<std::size_t>(member.index) % cpus_.size()] : 0};
    const int fault = pin_thread(member.thread, own ? one : base_cpus_);
    if (fault == 0 || !pin_fault_.empty()) return;
    pin_fault_ = "cannot pin worker " + std::to_string(member.index) + " to CPU " + std::to_string(one.front()) + ": " +
                 std::strerror(fault) + "; it runs unpinned";
    std::fprintf(stderr, "treadle: team '%s': %s\n", name_.c_str(), pin_fault_.c_str());
}

void Scheduler::set_cpus(std::vector<int> cpus, std::vector<int> base) {
    const Section section(*this);
    cpus_ = std::move(cpus);
    base_cpus_ = std::move(base);
    pin_fault_.clear();
    for (const auto& member : workers_) pin(*member);
    for (const auto& member : blocking_) pin(*member);
}

}  // namespace treadle
