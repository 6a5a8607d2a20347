#include "treadle/cancel.h"

#include <mutex>
#include <utility>

#include "treadle/fork.h"
#include "treadle/scheduler.h"

namespace treadle {

void CancelToken::cancel() {
    std::vector<Entry> ending;
    {
        const std::lock_guard lock(context_mutex());
        // Relaxed, partner: cancelled(). A thread that must not miss it holds a lock that this thread has held before
        // or takes afterwards: context_mutex() in attach(), the scheduler's lock in Scheduler::run().
        if (cancelled_.exchange(true, std::memory_order_relaxed)) return;
        ending = entries_;
    }
    for (const Entry& entry : ending) {
        if (entry.generation != fork_generation()) continue;
        entry.scheduler->cancel_run(entry.run, make_failure<RunCancelled>("the run was cancelled"));
    }
}

bool CancelToken::cancelled() const {
    return cancelled_.load(std::memory_order_relaxed);  // see cancel()
}

bool CancelToken::attach(std::shared_ptr<Scheduler> scheduler, std::uint64_t run) {
    const std::lock_guard lock(context_mutex());
    if (cancelled()) return false;
    entries_.push_back({std::move(scheduler), run, fork_generation()});
    return true;
}

void CancelToken::detach(std::uint64_t run) {
    std::shared_ptr<Scheduler> last;  // declared first, so destroyed after the lock is released
    const std::lock_guard lock(context_mutex());
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
        if (entry->run != run) continue;
        last = std::move(entry->scheduler);
        entries_.erase(entry);
        return;
    }
}

}  // namespace treadle
