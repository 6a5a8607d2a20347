#include "treadle/trace.h"

#include <pthread.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <ctime>
#include <memory>
#include <mutex>

#include "treadle/context.h"
#include "treadle/fork.h"
#include "treadle/worker.h"

namespace treadle {

std::atomic<bool> tracing_on{false};

namespace {

struct Buffer {
    Mutex mutex;
    std::vector<Event> events;  // guarded by mutex
    std::int64_t thread;
    std::uint64_t generation = fork_generation();
};

std::vector<std::shared_ptr<Buffer>>& buffers() {  // guarded by context_mutex()
    static auto* const all = new std::vector<std::shared_ptr<Buffer>>;  // never destroyed: workers may outlive static objects
    return *all;
}

std::int64_t os_thread_id() {
#if defined(__linux__)
    return syscall(SYS_gettid);
#else
    return reinterpret_cast<std::int64_t>(pthread_self());
#endif
}

Buffer& buffer_of_this_thread() {
    thread_local std::shared_ptr<Buffer> mine;
    if (!mine || mine->generation != fork_generation()) {
        mine = std::make_shared<Buffer>();
        mine->thread = os_thread_id();
        const std::lock_guard lock(context_mutex());
        buffers().push_back(mine);
    }
    return *mine;
}

// Returns all buffers, and drops from the table those whose threads have ended. In a child made by fork() it first
// drops the parent's buffers, whose locks may be held for ever.
std::vector<std::shared_ptr<Buffer>> all_buffers() {
    const std::lock_guard lock(context_mutex());
    std::erase_if(buffers(), [](const auto& buffer) { return buffer->generation != fork_generation(); });
    std::vector<std::shared_ptr<Buffer>> all = buffers();
    std::erase_if(buffers(), [](const auto& buffer) { return buffer.use_count() == 2; });
    return all;
}

}  // namespace

void trace_start() {
    for (const auto& buffer : all_buffers()) {
        const std::lock_guard lock(buffer->mutex);
        buffer->events.clear();
    }
    tracing_on.store(true, std::memory_order_relaxed);  // see tracing()
}

std::vector<Event> trace_stop() {
    tracing_on.store(false, std::memory_order_relaxed);  // see tracing()
    std::vector<Event> all;
    for (const auto& buffer : all_buffers()) {
        const std::lock_guard lock(buffer->mutex);
        all.insert(all.end(), buffer->events.begin(), buffer->events.end());
        buffer->events = {};
    }
    std::sort(all.begin(), all.end(), [](const Event& a, const Event& b) {
        return a.start_ns < b.start_ns || (a.start_ns == b.start_ns && a.end_ns > b.end_ns);
    });
    return all;
}

std::int64_t monotonic_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

void record(const Context& run, const Worker& worker, std::int64_t step, std::int64_t start_ns, std::int64_t chunks) {
    const std::int64_t end_ns = monotonic_ns();
    const Context* outermost = &run;
    std::int64_t iteration = run.iteration;
    while (outermost->outer != nullptr) {
        outermost = outermost->outer;
        if (iteration < 0) iteration = outermost->iteration;
    }
    Buffer& buffer = buffer_of_this_thread();
    const std::lock_guard lock(buffer.mutex);
    buffer.events.push_back({run.program.id(), outermost->run_id, step, worker.traced_team, worker.slot_holder->slot,
                             buffer.thread, start_ns, end_ns, chunks, iteration});
}

}  // namespace treadle
