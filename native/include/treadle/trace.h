// Events: which worker executed which step, and when. Each thread has a buffer; nothing is recorded while tracing is
// off.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace treadle {

struct Context;
struct Worker;

// Event is one worker's part in one execution of a step. Times are CLOCK_MONOTONIC nanoseconds. Events of one slot
// nest, or do not overlap.
struct Event {
    std::uint64_t program;
    std::uint64_t run;    // for a part of a run the outermost one
    std::int64_t step;
    std::int64_t team;
    std::int64_t slot;    // in the team, from 0; -1 - i for blocking worker i
    std::int64_t thread;  // of the operating system
    std::int64_t start_ns;
    std::int64_t end_ns;
    std::int64_t chunks;  // drawn by this worker
    std::int64_t iteration;  // of the innermost loop around the step; -1: none
};

extern std::atomic<bool> tracing_on;  // trace_start() and trace_stop() store it, tracing() loads it

// tracing() returns whether events are recorded. The load and its partners are relaxed: it does not matter whether an
// event at the edge of a trace is in it.
inline bool tracing() { return tracing_on.load(std::memory_order_relaxed); }

// trace_start() drops earlier events and starts recording. Any thread may call it, also while runs are in progress.
void trace_start();
// trace_stop() stops recording and returns all events, ordered by start time. Any thread may call it.
std::vector<Event> trace_stop();

// monotonic_ns() reads the clock of events.
std::int64_t monotonic_ns();
// record() adds an event to the calling thread's buffer and takes that buffer's lock.
void record(const Context& run, const Worker& worker, std::int64_t step, std::int64_t start_ns, std::int64_t chunks);

}  // namespace treadle
