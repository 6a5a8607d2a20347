#include "treadle/member.h"

#include <algorithm>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>
#else
#include <thread>
#endif
#if defined(__SSE__)
#include <immintrin.h>
#endif

#include "treadle/cancel.h"
#include "treadle/chaos.h"
#include "treadle/context.h"

namespace treadle {

namespace {

// Estimated work between two looks at the clock, which takes some 25 ns.
constexpr double kLookBudgetNs = 100'000;

}  // namespace

Member*& current_member() {
    thread_local Member* member = nullptr;
    return member;
}

void cpu_relax() {
#if defined(__SSE__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

#if defined(__linux__)

static_assert(sizeof(std::atomic<State>) == sizeof(std::uint32_t));

void sleep_while_parked(Member& member, std::chrono::nanoseconds timeout) {
    chaos_point();
    timespec limit{};
    limit.tv_sec = static_cast<std::time_t>(timeout.count() / 1'000'000'000);
    limit.tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000);
    syscall(SYS_futex, &member.state, FUTEX_WAIT_PRIVATE, static_cast<std::uint32_t>(State::parked),
            timeout.count() < 0 ? nullptr : &limit, nullptr, 0);
}

void wake(Member& member) {
    chaos_point();
    syscall(SYS_futex, &member.state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

#else

void sleep_while_parked(Member& member, std::chrono::nanoseconds timeout) {
    if (timeout.count() < 0) {
        member.state.wait(State::parked);
    } else {
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, std::chrono::milliseconds(1)));
    }
}

void wake(Member& member) { member.state.notify_one(); }

#endif

bool spin(const Member& member, Clock::time_point end) {
    do {
        for (int i = 0; i < 64; ++i) {
            chaos_point();
            // Pairs with the store in Scheduler::set_state(): what was written before it, Member::op, is seen after.
            if (member.state.load(std::memory_order_acquire) != State::spinning) return true;
            cpu_relax();
        }
    } while (Clock::now() < end);
    return false;
}

void start_watch(Member& member, void (*poll)(), Clock::time_point deadline, const Ending* around) {
    Watch& watch = member.watch;
    watch.has_ended = false;
    watch.on = poll != nullptr || deadline != kNever || around != nullptr;
    if (!watch.on) return;
    watch.poll = poll;
    watch.deadline = deadline;
    watch.around = around;
    watch.countdown = watch.stride = 1;
    watch.budget_ns = 0;
    watch.polled = watch.looked = Clock::now();
}

void look(Member& member, Clock::time_point now) {
    Watch& watch = member.watch;
    try {
        if (now >= watch.deadline) throw RunTimeout("the run did not end in time");
        for (const Ending* around = watch.around; around != nullptr; around = around->around.get()) {
            // Relaxed: a hint; the run around this one ends with a failure of its own.
            if (around->ended.load(std::memory_order_relaxed)) throw RunCancelled("the run around this one has ended");
        }
        if (watch.poll == nullptr || now - watch.polled < kPollInterval) return;
        watch.polled = now;
        watch.poll();
    } catch (...) {
        watch.on = false;
        watch.has_ended = true;
        throw;
    }
}

void check_run() {
    const Member* member = current_member();
    if (member == nullptr || member->running == nullptr) return;
    for (const Ending* run = member->running->ending.get(); run != nullptr; run = run->around.get()) {
        if (run->ended.load(std::memory_order_relaxed)) throw RunCancelled("the run has ended");  // a hint
    }
    const auto deadline = member->running->deadline;
    if (deadline != kNever && Clock::now() >= deadline) throw RunTimeout("the run did not end in time");
}

std::chrono::nanoseconds until_look(const Member& member, Clock::time_point now) {
    const Watch& watch = member.watch;
    if (!watch.on) return std::chrono::nanoseconds(-1);
    const bool polls = watch.poll != nullptr || watch.around != nullptr;
    if (watch.deadline == kNever) return kPollInterval;
    const std::chrono::nanoseconds left = std::max(watch.deadline - now, Clock::duration::zero());
    return polls ? std::min<std::chrono::nanoseconds>(left, kPollInterval) : left;
}

void maybe_look(Member& member, double done_ns) {
    Watch& watch = member.watch;
    if (!watch.on) return;
    watch.budget_ns -= done_ns;
    if (--watch.countdown > 0 && watch.budget_ns > 0) return;
    // Tasks are of unknown length: the clock is looked at once in as many of them as lately took a small part of the
    // interval, and by their estimates should again.
    const auto now = Clock::now();
    const auto gap = now - watch.looked;
    watch.looked = now;
    if (gap < kPollInterval / 16) watch.stride = std::min(watch.stride * 2, 64);
    if (gap > kPollInterval / 4) watch.stride = 1;
    watch.countdown = watch.stride;
    watch.budget_ns = kLookBudgetNs;
    look(member, now);
}

}  // namespace treadle
