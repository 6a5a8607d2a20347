// Section: a critical section of a scheduler.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "treadle/mutex.h"
#include "treadle/slot_audit.h"
#include "treadle/team_state.h"
#include "treadle/worker.h"

namespace treadle {

// Section is the only way to hold a scheduler's lock. When it releases the lock, it wakes the parked workers whose
// state was changed meanwhile. A thread that has one holds no other lock of the core when it takes the lock.
class Section {
public:
    explicit Section(TeamState& team) : team_(team), lock_(team.mutex) { audit_.begin(team_); }
    ~Section() { unlock(); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

    // unlock() releases the lock and then wakes the workers of wake_later().
    void unlock() {
        if (!lock_.owns_lock()) return;
        audit_.check(team_);
        lock_.unlock();
        for (int i = 0; i < count_; ++i) wake(*first_[i]);
        for (Worker* worker : more_) wake(*worker);
        count_ = 0;
        more_.clear();
    }
    void lock() {
        lock_.lock();
        audit_.begin(team_);
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
        audit_.check(team_);
        condition.wait_for(lock_, time);
        audit_.begin(team_);
    }
    // wait() releases the lock until `condition` is notified and `has_happened()`, which is called under the lock.
    template <typename HasHappened>
    void wait(std::condition_variable_any& condition, const HasHappened& has_happened) {
        audit_.check(team_);
        condition.wait(lock_, has_happened);
        audit_.begin(team_);
    }

private:
    static constexpr int kFirst = 8;
    TeamState& team_;
    std::unique_lock<Mutex> lock_;
    SlotAudit audit_;
    Worker* first_[kFirst];
    int count_ = 0;
    std::vector<Worker*> more_;
};

}  // namespace treadle
