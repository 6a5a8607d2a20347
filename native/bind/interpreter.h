// The interpreter's lock, signals and end, as seen by runs.
#pragma once

#include <Python.h>

// interpreter_is_ending() says that Python threads but the last can no longer take the GIL.
bool interpreter_is_ending();

// hang_if_interpreter_is_ending() never returns then: taking the GIL would unwind this thread through C++ frames that
// cannot be unwound, and end the process with an abort. The process ends without this thread.
void hang_if_interpreter_is_ending();

// ReleasedGil gives up the GIL for its lifetime.
class ReleasedGil {
public:
    ReleasedGil() : is_last_(interpreter_is_ending()), state_(PyEval_SaveThread()) {}
    ~ReleasedGil() {
        if (!is_last_) hang_if_interpreter_is_ending();
        PyEval_RestoreThread(state_);
    }
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;

private:
    bool is_last_;  // the thread that ends the interpreter may always take the GIL
    PyThreadState* state_;
};

// signal_poll() is the function that raises pending Python signals (Ctrl-C) as nb::python_error, or null on threads
// where Python handles none.
void (*signal_poll())();
