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

// All guarded by the GIL.
int outside = 0;                // threads inside a ReleasedGil
std::uint64_t counted_in = 0;   // the fork generation that `outside` counts the threads of
bool parted = false;
bool left_behind = false;       // those who are in Python functions now
pthread_t ender{};

// A child made by fork() has only the thread that forked, and has not begun to end.
void notice_fork() {
    if (counted_in == treadle::fork_generation()) return;
    counted_in = treadle::fork_generation();
    outside = 0;
    parted = left_behind = false;
}

constexpr useconds_t kLookUs = 200;
constexpr int kMostLooks = 1000;  // 200 ms: who does not come back by then is in a Python function

}  // namespace

ReleasedGil::ReleasedGil() : is_last_(interpreter_is_ending()) {
    notice_fork();
    if (parted && pthread_equal(pthread_self(), ender) == 0) {
        PyEval_SaveThread();
        for (;;) pause();
    }
    ++outside;
    generation_ = counted_in;
    state_ = PyEval_SaveThread();
}

ReleasedGil::~ReleasedGil() {
    if (!is_last_) hang_if_interpreter_is_ending();
    or_never([this] { PyEval_RestoreThread(state_); });
    if (generation_ == counted_in) --outside;
}

HeldGil::HeldGil() {
    if (PyGILState_Check() == 0) hang_if_interpreter_is_ending();
    state_ = or_never(PyGILState_Ensure);
}

void hang_if_left_behind() {
    if (!left_behind || pthread_equal(pthread_self(), ender) != 0) return;
    PyEval_SaveThread();
    for (;;) pause();
}

void end_thread_if_parted() {
    notice_fork();
    if (!parted || pthread_equal(pthread_self(), ender) != 0) return;
    PyErr_SetNone(PyExc_SystemExit);
    throw nb::python_error();
}

bool part_from_other_threads(bool (*before_waiting)()) {
    notice_fork();
    parted = true;
    ender = pthread_self();
    PyThreadState* const state = PyEval_SaveThread();
    const bool any_left = before_waiting();
    PyEval_RestoreThread(state);
    left_behind = any_left;
    for (int looks = 0; outside > 0 && looks < kMostLooks; ++looks) {
        Py_BEGIN_ALLOW_THREADS;
        usleep(kLookUs);
        Py_END_ALLOW_THREADS;
    }
    return any_left || outside > 0;
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
    // A thread that forks is its child's main thread.
    thread_local std::uint64_t asked_in = UINT64_MAX;
    thread_local bool is_main = false;
    if (asked_in != treadle::fork_generation()) {
        asked_in = treadle::fork_generation();
        is_main = may_be_main_thread();
    }
    return is_main ? &raise_pending_signals : nullptr;
}
