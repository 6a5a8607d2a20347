#include "interpreter.h"

#include <nanobind/nanobind.h>
#include <pthread.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

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

void raise_pending_signals() {
    hang_if_interpreter_is_ending();
    const nb::gil_scoped_acquire held;
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
    thread_local const bool is_main = may_be_main_thread();
    return is_main ? &raise_pending_signals : nullptr;
}
