#include "treadle/watch.h"

#include <algorithm>

#include "treadle/cancel.h"

namespace treadle {

namespace {

// Estimated work between two readings of the clock, each of which takes some 25 ns.
constexpr double kWorkPerReadingNs = 100'000;

}  // namespace

void Watch::start(void (*poll)(), Clock::time_point deadline, const Ending* outer) {
    has_ended_run_ = false;
    is_on_ = poll != nullptr || deadline != kNever || outer != nullptr;
    if (!is_on_) return;
    poll_ = poll;
    deadline_ = deadline;
    outer_ = outer;
    countdown_ = stride_ = 1;
    budget_ns_ = 0;
    polled_at_ = read_at_ = Clock::now();
}

void Watch::check(Clock::time_point now) {
    try {
        if (now >= deadline_) throw RunTimeout("the run did not end in time");
        for (const Ending* outer = outer_; outer != nullptr; outer = outer->outer.get()) {
            // Relaxed, partner: Dispatcher::cancel(). A hint: the run around this one ends with a failure of its own.
            if (outer->ended.load(std::memory_order_relaxed)) throw RunCancelled("the run around this one has ended");
        }
        if (poll_ == nullptr || now - polled_at_ < kPollInterval) return;
        polled_at_ = now;
        poll_();
    } catch (...) {
        is_on_ = false;
        has_ended_run_ = true;
        throw;
    }
}

void Watch::count_work(double done_ns) {
    budget_ns_ -= done_ns;
    if (--countdown_ > 0 && budget_ns_ > 0) return;
    // The length of a task is not known in advance. So the clock is read once in as many tasks as took a small part of
    // the poll interval before, and earlier if the estimates say so.
    const auto now = Clock::now();
    const auto gap = now - read_at_;
    read_at_ = now;
    if (gap < kPollInterval / 16) stride_ = std::min(stride_ * 2, 64);
    if (gap > kPollInterval / 4) stride_ = 1;
    countdown_ = stride_;
    budget_ns_ = kWorkPerReadingNs;
    check(now);
}

std::chrono::nanoseconds Watch::time_to_check(Clock::time_point now) const {
    if (!is_on_) return std::chrono::nanoseconds(-1);
    if (deadline_ == kNever) return kPollInterval;
    const std::chrono::nanoseconds left = std::max(deadline_ - now, Clock::duration::zero());
    const bool polls = poll_ != nullptr || outer_ != nullptr;
    return polls ? std::min<std::chrono::nanoseconds>(left, kPollInterval) : left;
}

}  // namespace treadle
