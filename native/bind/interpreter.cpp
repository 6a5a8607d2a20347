#include "interpreter.h"

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

#include "treadle/fork.h"

namespace nb = nanobind;

bool interpreter_is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing() != 0;
#else
    return _Py_IsFinalizing() != 0;
#endif
}

void hang_if_interpreter_is_ending() {
    while (interpreter_is_ending()) pause();
}

namespace {

// The GIL guards these.
int released = 0;                      // threads inside a ReleasedGil
std::uint64_t counted_generation = 0;  // the fork generation whose threads `released` counts
bool is_shutting_down = false;         // stop_other_threads() has been called
bool has_left_threads = false;         // threads are in Python functions that stop_other_threads() does not wait for
pthread_t ending_thread{};             // the caller of stop_other_threads()

// A child made by fork() has only the thread that forked, and is not ending.
void reset_after_fork() {
    if (counted_generation == treadle::fork_generation()) return;
    counted_generation = treadle::fork_generation();
    released = 0;
    is_shutting_down = has_left_threads = false;
}

bool is_ending_thread() { return pthread_equal(pthread_self(), ending_thread) != 0; }

[[noreturn]] void hang_without_gil() {
    PyEval_SaveThread();
    for (;;) pause();
}

constexpr useconds_t kPollUs = 200;
constexpr int kMaxPolls = 1000;  // 200 ms: a thread that has not returned by then is in a Python function

}  // namespace

ReleasedGil::ReleasedGil() : is_ending_thread_(interpreter_is_ending()) {
    reset_after_fork();
    if (is_shutting_down && !is_ending_thread()) hang_without_gil();
    ++released;
    generation_ = counted_generation;
    state_ = PyEval_SaveThread();
}

ReleasedGil::~ReleasedGil() {
    if (!is_ending_thread_) hang_if_interpreter_is_ending();
    or_hang([this] { PyEval_RestoreThread(state_); });
    if (generation_ == counted_generation) --released;
}

HeldGil::HeldGil() {
    if (PyGILState_Check() == 0) hang_if_interpreter_is_ending();
    state_ = or_hang(PyGILState_Ensure);
}

void hang_if_left_running() {
    if (has_left_threads && !is_ending_thread()) hang_without_gil();
}

void exit_thread_if_shutting_down() {
    reset_after_fork();
    if (!is_shutting_down || is_ending_thread()) return;
    PyErr_SetNone(PyExc_SystemExit);
    throw nb::python_error();
}

bool stop_other_threads(bool (*before_waiting)()) {
    reset_after_fork();
    is_shutting_down = true;
    ending_thread = pthread_self();
    PyThreadState* const state = PyEval_SaveThread();
    const bool any_left = before_waiting();
    PyEval_RestoreThread(state);
    has_left_threads = any_left;
    for (int polls = 0; released > 0 && polls < kMaxPolls; ++polls) {
        Py_BEGIN_ALLOW_THREADS;
        usleep(kPollUs);
        Py_END_ALLOW_THREADS;
    }
    return any_left || released > 0;
}

namespace {

void raise_pending_signals() {
    const HeldGil held;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

bool may_be_main_thread() {
#if defined(__linux__)
    return syscall(SYS_gettid) == getpid();
#elif defined(__APPLE__)
    return pthread_main_np() != 0;
#else
    return true;
#endif
}

}  // namespace

void (*signal_poll())() {
    // The thread that forks is its child's main thread, so the answer is kept for one fork generation.
    thread_local std::uint64_t checked_generation = UINT64_MAX;
    thread_local bool is_main = false;
    if (checked_generation != treadle::fork_generation()) {
        checked_generation = treadle::fork_generation();
        is_main = may_be_main_thread();
    }
    return is_main ? &raise_pending_signals : nullptr;
}
