// The interpreter's lock, signals and end, as runs see them.
#pragma once

#include <Python.h>

#include <unistd.h>

#include <cstdint>

// interpreter_is_ending() returns whether Python threads, except the one that ends the interpreter, can no longer take
// the GIL.
bool interpreter_is_ending();

// hang_if_interpreter_is_ending() never returns if the interpreter is ending. Taking the GIL would unwind this thread
// through C++ frames that cannot be unwound, and abort the process. The process ends without this thread.
void hang_if_interpreter_is_ending();

// or_hang() returns what `call` returns, or never if the interpreter ends meanwhile: up to Python 3.13 it refuses the
// GIL by pthread_exit(), and that unwinding ends here. `call` throws nothing itself.
template <typename Call>
auto or_hang(const Call& call) {
    try {
        return call();
    } catch (...) {
        for (;;) pause();
    }
}

// HeldGil holds the GIL for its lifetime. Any thread may make one; the constructor blocks until the GIL is free.
class HeldGil {
public:
    HeldGil();
    ~HeldGil() { PyGILState_Release(state_); }
    HeldGil(const HeldGil&) = delete;
    HeldGil& operator=(const HeldGil&) = delete;

private:
    PyGILState_STATE state_;
};

// ReleasedGil releases the GIL for its lifetime. The calling thread must hold the GIL. After stop_other_threads() the
// destructor never returns in any thread but the one that called it.
class ReleasedGil {
public:
    ReleasedGil();
    ~ReleasedGil();
    ReleasedGil(const ReleasedGil&) = delete;
    ReleasedGil& operator=(const ReleasedGil&) = delete;

private:
    bool is_ending_thread_;  // the thread that ends the interpreter may always take the GIL
    std::uint64_t generation_;
    PyThreadState* state_;
};

// stop_other_threads() prepares the end of the interpreter. The ending thread calls it, with the GIL. It first calls
// `before_waiting` without the GIL; that function must let the other threads return from the core, and returns whether
// any cannot. Then it blocks until no other thread is inside a ReleasedGil, but not for long: threads that stay in
// Python functions never return from them. Returns whether there are such threads.
bool stop_other_threads(bool (*before_waiting)());

// hang_if_left_running() is called by threads that return from Python, with the GIL. It releases the GIL and never
// returns if stop_other_threads() has not waited for this thread.
void hang_if_left_running();

// exit_thread_if_shutting_down() is called at calls from Python, with the GIL. After stop_other_threads() it raises
// SystemExit in any other thread. That ends a Python thread without a message, so joining it at the end of the process
// does not block.
void exit_thread_if_shutting_down();

// signal_poll() returns the function that raises pending Python signals (Ctrl-C) as nb::python_error, or null on
// threads on which Python handles no signals.
void (*signal_poll())();
