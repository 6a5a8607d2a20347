// The treadle._native module: the core's interface to Python. It knows nothing of ops.
#include <nanobind/nanobind.h>

#include <chrono>
#include <string>

#include "bind.h"
#include "interpreter.h"
#include "treadle/engine.h"
#include "treadle/team.h"

namespace nb = nanobind;

namespace {

// How long the end of the process waits for Python functions inside runs.
constexpr std::chrono::milliseconds grace{200};

// Workers take the GIL by PyGILState_Ensure(), which knows the main interpreter alone.
void refuse_other_interpreters() {
    if (PyInterpreterState_Get() == PyInterpreterState_Main()) return;
    throw nb::import_error("treadle runs in the main interpreter of a process, not in a sub-interpreter; use threads, or processes");
}

}  // namespace

PyObject* make_exception(nb::module_& m, const char* name, const char* doc) {
    const std::string full = std::string("treadle._native.") + name;
    PyObject* exception = PyErr_NewExceptionWithDoc(full.c_str(), doc, PyExc_RuntimeError, nullptr);
    if (exception == nullptr) throw nb::python_error();
    m.attr(name) = nb::borrow(exception);
    return exception;
}

NB_MODULE(_native, m) {
    refuse_other_interpreters();
    m.doc() = "The native core of treadle: a team of threads and the DAGs it runs.";
    bind_library_gemm(m);
    bind_program(m);
    bind_control_flow(m);
    bind_template(m);
    bind_buffer_pool(m);
    bind_mapped_file(m);
    bind_data_stage(m);
    bind_tiling(m);
    bind_winograd(m);
    bind_declared_arrays(m);
    bind_team(m);
    bind_trace(m);
    m.def(
        "set_engine", [](std::uintptr_t address) { treadle::set_engine(reinterpret_cast<treadle::Engine>(address)); },
        nb::arg("address"),
        "Have the function at this address, of the type of GOMP_parallel, execute the chunks of ops; 0 for the team.\n"
        "Raise RuntimeError if a run has begun with another engine.");
    m.def("engine_is_fixed", &treadle::engine_is_fixed, "Return whether a run has begun, after which no other engine can be set.");
    // After this no worker and no other thread's run is left, so none uses the interpreter while it ends.
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
        const bool any_left = stop_other_threads([] { return treadle::shut_down_all_teams(grace); });
        // Daemon threads end with all that they refer to still allocated: not a leak of this module.
        const auto threads = nb::module_::import_("threading").attr("active_count")();
        if (any_left || nb::cast<int>(threads) > 1) nb::set_leak_warnings(false);
    }));
}
