// The chosen engine, and runs whose ops it executes.
#include "treadle/engine.h"

#include <atomic>
#include <mutex>
#include <stdexcept>
#include <utility>

#include "treadle/executor.h"
#include "treadle/fork.h"
#include "treadle/section.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace treadle {

namespace {

// set_engine() stores it under context_mutex() before any run, then it is constant. Relaxed loads suffice: a thread
// that calls a run has synchronised with the thread that set the engine, or sees null.
std::atomic<Engine> chosen{nullptr};
// The fork generation, plus 1, of the last process that has begun a run. engine_in_use() stores it, engine_is_fixed() loads it.
std::atomic<std::uint64_t> fixed_in{0};

// ThreadSanitizer does not see how an engine orders its threads, since the engine's library is not instrumented.
// publish(at) and observe(at) tell it: what one thread did before publish() is visible to another after observe().
#if defined(__SANITIZE_THREAD__)
void publish(void* at) { __tsan_release(at); }
void observe(void* at) { __tsan_acquire(at); }
#else
void publish(void*) {}
void observe(void*) {}
#endif

}  // namespace

void set_engine(Engine engine) {
    const std::lock_guard lock(context_mutex());
    if (engine_is_fixed() && chosen.load(std::memory_order_relaxed) != engine) {
        throw std::logic_error("engine: a run has begun with another one");
    }
    chosen.store(engine, std::memory_order_relaxed);
}

Engine engine_in_use() {
    if (!engine_is_fixed()) {
        const std::lock_guard lock(context_mutex());
        fixed_in.store(fork_generation() + 1, std::memory_order_relaxed);
    }
    return chosen.load(std::memory_order_relaxed);
}

bool engine_is_fixed() {
    return fixed_in.load(std::memory_order_relaxed) == fork_generation() + 1;  // relaxed: see `chosen`
}

// Has the engine's threads draw the chunks of `op`, which no other call knows. Returns when all chunks are done.
void Executor::run_op_with_engine(Worker& caller, Op& op, EngineLoop loop) {
    struct Shared {
        Executor& executor;
        Worker& caller;
        Op& op;
        pthread_t thread;
    } shared{*this, caller, op, pthread_self()};
    const auto body = [](void* data) {
        observe(data);
        const Shared& call = *static_cast<Shared*>(data);
        if (pthread_equal(pthread_self(), call.thread) != 0) {
            call.executor.execute_op(call.caller, call.op);
        } else {
            call.executor.work_on_engine_thread(call.op);
        }
        publish(data);
    };
    publish(&shared);
    loop.engine(body, &shared, static_cast<unsigned>(loop.width), 0);
    observe(&shared);
}

// Draws chunks on a thread of another runtime, and restores that thread's floating-point mode.
void Executor::work_on_engine_thread(Op& op) {
    thread_local Block scratch;
    Worker borrows_slot(*op.run->caller->scheduler, team_.slots, Role::compute);
    borrows_slot.traced_team = team_.id;
    borrows_slot.scratch = std::move(scratch);
    const FpMode before = borrows_slot.fp_mode;
    {
        const Section section(team_);
        team_.slots.audit_counts().add_engine_slots(1);
        team_.idle.take_slot(borrows_slot);
    }
    execute_op(borrows_slot, op);
    {
        const Section section(team_);
        team_.slots.release(borrows_slot);
        team_.slots.audit_counts().add_engine_slots(-1);
    }
    if (borrows_slot.fp_mode != before) set_fp_mode(before);
    scratch = std::move(borrows_slot.scratch);
}

}  // namespace treadle
