// The interpreter's lock, signals and end, as seen by runs.
#pragma once

#include <Python.h>

#include <unistd.h>

#include <cstdint>

// interpreter_is_ending() says that Python threads but the last can no longer take the GIL.
bool interpreter_is_ending();

// hang_if_interpreter_is_ending() never returns then: taking the GIL would unwind this thread through C++ frames that
// cannot be unwound, and end the process with an abort. The process ends without this thread.
void hang_if_interpreter_is_ending();

// or_never() returns what `wants_gil` does, or never if the interpreter has gone meanwhile: up to Python 3.13 the GIL is
// then denied by pthread_exit(), and that unwinding ends here. `wants_gil` throws nothing itself.
template <typename Function>
auto or_never(const Function& wants_gil) {
    try {
        return wants_gil();
    } catch (...) {
        for (;;) pause();
    }
}

// HeldGil holds the GIL for its lifetime, on any thread.
class HeldGil {
public:
    HeldGil();
    ~HeldGil() { PyGILState_Release(state_); }
    HeldGil(const HeldGil&) = delete;
    HeldGil& operator=(const HeldGil&) = delete;

private:
    PyGILState_STATE state_;
};

// hang_if_left_behind() is for threads that come back from Python with the GIL: never returns, and gives it up, if
// part_from_other_threads() has not waited for this one.
void hang_if_left_behind();

// ReleasedGil gives up the GIL for its lifetime. After part_from_other_threads() it never returns to any other thread.
class ReleasedGil {
public:
    ReleasedGil();
    ~ReleasedGil();
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;

private:
    bool is_last_;  // the thread that ends the interpreter may always take the GIL
    std::uint64_t generation_;
    PyThreadState* state_;
};

// part_from_other_threads() is for the thread that is about to end the interpreter, with the GIL: returns when no other
// thread is inside a ReleasedGil, so that none can be waiting for the GIL in there when it is too late, or soon after if
// there are some in Python functions for longer: these never come back. Calls `before_waiting` without the GIL first,
// which must let the others come back, and says whether any is left. Returns whether any is.
bool part_from_other_threads(bool (*before_waiting)());

// end_thread_if_parted() is for calls from Python, with the GIL: after part_from_other_threads() it raises SystemExit in any
// other thread. That ends a Python thread without a word, and who joins it at the end of the process waits for nothing.
void end_thread_if_parted();

// signal_poll() is the function that raises pending Python signals (Ctrl-C) as nb::python_error, or null on threads
// where Python handles none.
void (*signal_poll())();
