#include "treadle/worker.h"

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

Worker*& current_worker() {
    thread_local Worker* worker = nullptr;
    return worker;
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

void sleep_while_parked(Worker& worker, std::chrono::nanoseconds timeout) {
    chaos_point();
    timespec limit{};
    limit.tv_sec = static_cast<std::time_t>(timeout.count() / 1'000'000'000);
    limit.tv_nsec = static_cast<long>(timeout.count() % 1'000'000'000);
    syscall(SYS_futex, &worker.state, FUTEX_WAIT_PRIVATE, static_cast<std::uint32_t>(State::parked),
            timeout.count() < 0 ? nullptr : &limit, nullptr, 0);
}

void wake(Worker& worker) {
    chaos_point();
    syscall(SYS_futex, &worker.state, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

#else

void sleep_while_parked(Worker& worker, std::chrono::nanoseconds timeout) {
    if (timeout.count() < 0) {
        worker.state.wait(State::parked);
    } else {
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(timeout, std::chrono::milliseconds(1)));
    }
}

void wake(Worker& worker) { worker.state.notify_one(); }

#endif

bool spin(const Worker& worker, Clock::time_point end) {
    do {
        for (int i = 0; i < 64; ++i) {
            chaos_point();
            // Acquire, partner: IdleWorkers::set_state(). The thread reads Worker::op, written before it, after this.
            if (worker.state.load(std::memory_order_acquire) != State::spinning) return true;
            cpu_relax();
        }
    } while (Clock::now() < end);
    return false;
}

void check_run() {
    const Worker* worker = current_worker();
    if (worker == nullptr || worker->current_run == nullptr) return;
    for (const Ending* run = worker->current_run->ending.get(); run != nullptr; run = run->outer.get()) {
        if (run->ended.load(std::memory_order_relaxed)) throw RunCancelled("the run has ended");  // a hint
    }
    const auto deadline = worker->current_run->deadline;
    if (deadline != kNever && Clock::now() >= deadline) throw RunTimeout("the run did not end in time");
}

void begin_iteration(std::int64_t number) {
    check_run();
    if (Worker* const worker = current_worker()) worker->iteration = number;
}

}  // namespace treadle
