#include "weft/member.h"

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

#include "weft/chaos.h"

namespace weft {

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

bool spin(const Member& member, std::chrono::nanoseconds limit) {
    const auto end = std::chrono::steady_clock::now() + limit;
    do {
        for (int i = 0; i < 64; ++i) {
            chaos_point();
            // Pairs with the store in Scheduler::set_state(): what was written before it, Member::op, is seen after.
            if (member.state.load(std::memory_order_acquire) != State::spinning) return true;
            cpu_relax();
        }
    } while (std::chrono::steady_clock::now() < end);
    return false;
}

void start_polling(Member& member, void (*poll)()) {
    member.poll = poll;
    if (poll == nullptr) return;
    member.poll_countdown = member.poll_stride = 1;
    member.polled = member.looked = std::chrono::steady_clock::now();
}

void maybe_poll(Member& member) {
    if (member.poll == nullptr || --member.poll_countdown > 0) return;
    // Tasks are of unknown length: the clock is looked at once in as many of them as lately took a small part of the
    // interval.
    const auto now = std::chrono::steady_clock::now();
    const auto gap = now - member.looked;
    member.looked = now;
    if (gap < kPollInterval / 16) member.poll_stride = std::min(member.poll_stride * 2, 64);
    if (gap > kPollInterval / 4) member.poll_stride = 1;
    member.poll_countdown = member.poll_stride;
    if (now - member.polled < kPollInterval) return;
    member.polled = now;
    member.poll();
}

}  // namespace weft
