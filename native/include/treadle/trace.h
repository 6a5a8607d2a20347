// Events: which worker ran which step, when. One buffer a thread; nothing is recorded while tracing is off.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace treadle {

struct Context;
struct Worker;

// Event is one worker's part in one execution of a step. Times are CLOCK_MONOTONIC nanoseconds. Events of one place
// nest and never overlap otherwise.
struct Event {
    std::uint64_t program;
    std::uint64_t run;
    std::int64_t step;
    std::int64_t team;
    std::int64_t slot;   // in the team: 0.. ; -1 - i for blocking thread i
    std::int64_t thread;  // of the operating system
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::int64_t chunks;  // drawn by this worker
};

extern std::atomic<bool> tracing_on;

// tracing() is one relaxed load: an event more or less at the edges of a trace is no harm, so it has no partner.
inline bool tracing() { return tracing_on.load(std::memory_order_relaxed); }

// trace_start() forgets earlier events and begins; trace_stop() ends and returns all events by start time.
// Any thread may call them, runs may be in progress.
void trace_start();
std::vector<Event> trace_stop();

// monotonic_ns() is the clock of events.
std::int64_t monotonic_ns();
// record() adds an event to the calling thread's buffer.
void record(const Context& run, const Worker& worker, std::int64_t step, std::int64_t start_ns, std::int64_t chunks);

}  // namespace treadle
