// The interpreter's lock, signals and end, as seen by runs.
#pragma once

#include <Python.h>

#include <cstdint>

// interpreter_is_ending() says that Python threads but the last can no longer take the GIL.
bool interpreter_is_ending();

// hang_if_interpreter_is_ending() never returns then: taking the GIL would unwind this thread through C++ frames that
// cannot be unwound, and end the process with an abort. The process ends without this thread.
void hang_if_interpreter_is_ending();

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
// thread is inside a ReleasedGil, so that none can be waiting for the GIL in there when it is too late. Calls
// `before_waiting` without the GIL first, which must let those threads come back.
void part_from_other_threads(void (*before_waiting)());

// signal_poll() is the function that raises pending Python signals (Ctrl-C) as nb::python_error, or null on threads
// where Python handles none.
void (*signal_poll())();
