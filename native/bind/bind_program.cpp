#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "interpreter.h"
#include "treadle/data_stage.h"
#include "treadle/program.h"
#include "py_program.h"
#include "py_team.h"

namespace nb = nanobind;
using treadle::Program;

namespace {

using Pointers = std::vector<std::pair<std::int64_t, std::int64_t>>;
using PyStep = std::tuple<nb::object, Pointers, std::vector<std::int64_t>, std::int64_t, double>;
using PyTask = std::tuple<std::int64_t, std::int64_t, double, bool>;

// Exception classes. They live as long as the process.
PyObject* kernel_failure = nullptr;
PyObject* run_timeout = nullptr;
PyObject* run_cancelled = nullptr;
PyObject* no_thread = nullptr;

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    for (const auto& callable : nb::inst_ptr<PyProgram>(self)->callables) Py_VISIT(callable.get());
    return 0;
}

// No tp_clear is needed: a cycle through a program also passes through a function or container that has one.
PyType_Slot collector_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {0, nullptr}};

treadle::StepSpec to_step(PyStep step, int max_workers, std::vector<std::shared_ptr<PyObject>>& callables) {
    auto& [code, pointers, args, chunks, cost_ns] = step;
    treadle::StepSpec spec;
    if (PyCallable_Check(code.ptr()) != 0 || nb::isinstance<PyControlStep>(code)) {
        spec.host = to_host_call(code, callables);
    } else {
        spec.kernel = reinterpret_cast<treadle::Kernel>(nb::cast<std::uintptr_t>(code));
    }
    spec.pointers.reserve(pointers.size());
    for (const auto& [buffer, offset] : pointers) spec.pointers.push_back({buffer, offset});
    spec.args = std::move(args);
    spec.chunks = chunks;
    spec.cost_ns = cost_ns;
    spec.max_workers = max_workers;
    return spec;
}

PyProgram* make_program(std::vector<PyStep> steps, const std::vector<PyTask>& tasks,
                        const std::vector<std::vector<std::int64_t>>& successors, const std::vector<PyBuffer>& buffers,
                        std::int64_t arena_bytes, std::int64_t scratch_bytes, const std::vector<int>& max_workers,
                        const PyHandOver& hand_over) {
    if (!max_workers.empty() && max_workers.size() != steps.size()) {
        throw std::invalid_argument("max_workers: wanted one number a step = " + std::to_string(steps.size()) +
                                    ", got " + std::to_string(max_workers.size()));
    }
    std::vector<std::shared_ptr<PyObject>> callables;
    std::vector<treadle::StepSpec> step_specs;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        step_specs.push_back(to_step(std::move(steps[i]), max_workers.empty() ? 0 : max_workers[i], callables));
    }
    std::vector<treadle::TaskSpec> task_specs;
    for (const auto& [first, count, priority, blocking] : tasks) {
        task_specs.push_back({first, count, priority, blocking});
    }
    std::vector<treadle::BufferSpec> buffer_specs;
    for (std::size_t i = 0; i < buffers.size(); ++i) buffer_specs.push_back(to_buffer(i, buffers[i]));
    auto program = std::make_unique<PyProgram>(std::move(step_specs), task_specs, successors, buffer_specs, arena_bytes,
                                               scratch_bytes, to_hand_over(hand_over));
    program->callables = std::move(callables);
    return program.release();
}

[[noreturn]] void raise(const treadle::KernelFailure& failure) {
    nb::object error = nb::borrow(kernel_failure)(failure.what());
    error.attr("program") = failure.program;
    error.attr("step") = failure.step;
    error.attr("code") = failure.code;
    PyErr_SetObject(kernel_failure, error.ptr());
    throw nb::python_error();
}

[[noreturn]] void raise(PyObject* kind, const std::exception& failure) {
    PyErr_SetString(kind, failure.what());
    throw nb::python_error();
}

// Calls `call` and raises the core's exceptions about runs as Python's.
template <typename Call>
void translate_errors(const Call& call) {
    try {
        call();
    } catch (const treadle::KernelFailure& failure) {
        raise(failure);
    } catch (const treadle::RunTimeout& failure) {
        raise(run_timeout, failure);
    } catch (const treadle::RunCancelled& failure) {
        raise(run_cancelled, failure);
    } catch (const treadle::NoThread& failure) {
        raise(no_thread, failure);
    }
}

// Returns the address of bound memory, which is a number or a contiguous array.
void* address_of(nb::handle bound) {
    if (nb::isinstance<treadle::SizedMemory>(bound)) return nb::inst_ptr<treadle::SizedMemory>(bound);
    if (PyLong_Check(bound.ptr())) return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(bound));
    Py_buffer view;
    if (PyObject_GetBuffer(bound.ptr(), &view, PyBUF_SIMPLE) == 0) {
        void* const begin = view.buf;
        PyBuffer_Release(&view);
        return begin;
    }
    PyErr_Clear();  // the buffer protocol does not know some dtypes, for example bfloat16
    return reinterpret_cast<void*>(nb::cast<std::uintptr_t>(bound.attr("ctypes").attr("data")));
}

// Returns the time `seconds` from now, or kNever for NaN.
treadle::Clock::time_point deadline_in(double seconds) {
    constexpr double most = 1e9;  // 30 years stand for never, without overflow
    if (!(seconds < most)) return treadle::kNever;
    return treadle::Clock::now() + std::chrono::duration_cast<treadle::Clock::duration>(
                                    std::chrono::duration<double>(std::max(seconds, 0.0)));
}

// Holds references until any thread destroys it.
struct KeptObjects {
    KeptObjects() = default;
    KeptObjects(const KeptObjects&) = delete;
    KeptObjects& operator=(const KeptObjects&) = delete;
    ~KeptObjects() {
        if (PyGILState_Check() == 0 && interpreter_is_ending()) return;
        const HeldGil held;
        for (PyObject* each : objects) Py_XDECREF(each);
    }
    std::array<PyObject*, 3> objects{};
};

// Returns the owner of new references to `objects`. Any thread may drop it.
std::shared_ptr<void> keep_alive(const std::array<PyObject*, 3>& objects) {
    const HeldGil held;
    for (PyObject* each : objects) Py_XINCREF(each);
    try {
        auto owner = std::make_shared<KeptObjects>();
        owner->objects = objects;
        return owner;
    } catch (const std::bad_alloc&) {
        return nullptr;  // the references are then never dropped
    }
}

void run(PyProgram& program, PyTeam& team, const nb::list& bound, int intra_op, int inter_op,
         int priority, double timeout, std::shared_ptr<treadle::CancelToken> token, std::shared_ptr<treadle::RunLimits> own,
         std::shared_ptr<treadle::RunLimits> common, nb::handle keep, bool part, bool caller_waits) {
    treadle::Request request({intra_op, inter_op});
    request.priority = priority;
    request.deadline = deadline_in(timeout);
    request.token = std::move(token);
    request.own_limits = std::move(own);
    request.common_limits = std::move(common);
    request.is_part = part;
    request.caller_waits = caller_waits;
    const nb::object self = nb::find(program);
    const std::array<PyObject*, 3> used{self.ptr(), bound.ptr(), keep.ptr()};
    request.keep_alive = [&used] { return keep_alive(used); };
    request.poll = signal_poll();
    std::vector<void*> addresses;
    addresses.reserve(bound.size());
    for (const nb::handle each : bound) addresses.push_back(address_of(each));
    exit_thread_if_shutting_down();
    translate_errors([&] {
        try {
            const ReleasedGil released;
            team.run(program, addresses, request);
        } catch (...) {
            exit_thread_if_shutting_down();
            throw;
        }
    });
}

void check_run() {
    translate_errors([] { treadle::check_run(); });
}

void begin_iteration(std::int64_t number) {
    translate_errors([number] { treadle::begin_iteration(number); });
}

}  // namespace

std::shared_ptr<PyObject> shared_object(nb::object object) {
    return {object.release().ptr(), [](PyObject* owned) {
                const bool held_already = PyGILState_Check() != 0;
                if (!held_already && interpreter_is_ending()) return;
                const HeldGil held;
                Py_DECREF(owned);
            }};
}

treadle::BufferSpec to_buffer(std::size_t index, const PyBuffer& buffer) {
    const auto& [kind, value] = buffer;
    if (kind == "arena") return {treadle::BufferKind::arena, value};
    if (kind == "constant") return {treadle::BufferKind::constant, value};
    if (kind == "bound") return {treadle::BufferKind::bound, value};
    throw std::invalid_argument("buffer " + std::to_string(index) +
                                ": kind must be 'arena', 'constant' or 'bound', got '" + kind + "'");
}

treadle::HandOver to_hand_over(const PyHandOver& figures) {
    const auto [wake_ns, unpark_ns, line_ns] = figures;
    for (const double ns : {wake_ns, unpark_ns, line_ns}) {
        if (ns > 0 && std::isfinite(ns)) continue;
        throw std::invalid_argument("hand_over: wanted finite numbers above 0, got " + std::to_string(ns));
    }
    return {wake_ns, unpark_ns, line_ns};
}

treadle::HostCall to_host_call(nb::object callable, std::vector<std::shared_ptr<PyObject>>& callables) {
    callables.push_back(shared_object(std::move(callable)));
    if (nb::isinstance<PyControlStep>(callables.back().get())) {
        return nb::inst_ptr<PyControlStep>(callables.back().get())->call;
    }
    return [function = callables.back()](std::span<void* const> pointers) {
        const HeldGil held;
        nb::object addresses = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(pointers.size())));
        if (!addresses.is_valid()) throw nb::python_error();
        for (std::size_t i = 0; i < pointers.size(); ++i) {
            PyTuple_SET_ITEM(addresses.ptr(), static_cast<Py_ssize_t>(i), PyLong_FromVoidPtr(pointers[i]));
        }
        nb::steal(or_hang([&] { return PyObject_CallOneArg(function.get(), addresses.ptr()); }));
        hang_if_left_running();
        if (PyErr_Occurred() != nullptr) throw nb::python_error();
    };
}

void bind_program(nb::module_& m) {
    kernel_failure = make_exception(m, "KernelFailure", "A kernel returned a non-zero code. Attributes: program, step, code.");
    run_timeout = make_exception(m, "RunTimeout", "A run did not end in time.");
    run_cancelled = make_exception(m, "RunCancelled", "A run was cancelled.");
    no_thread = make_exception(m, "NoThread", "A run needs a thread of its own, and none can be started.");
    m.def("check_run", &check_run, "Raise RunTimeout or RunCancelled if the run around the calling step has ended or should end.");
    m.def("begin_iteration", &begin_iteration, nb::arg("number"),
          "Do what check_run() does, and give runs that the calling step calls this number in their events.");
    nb::class_<PyProgram>(m, "Program", nb::type_slots(collector_slots),
                          "An immutable DAG of tasks. The owner of the program keeps the memory of its constants alive.")
        .def(nb::new_(&make_program), nb::arg("steps"), nb::arg("tasks"), nb::arg("successors"), nb::arg("buffers"),
             nb::arg("arena_bytes"), nb::arg("scratch_bytes"), nb::arg("max_workers") = std::vector<int>(),
             nb::arg("hand_over") = kGenericHandOver)
        .def("run", &run, nb::arg("team"), nb::arg("bound"), nb::arg("intra_op") = 0, nb::arg("inter_op") = 0,
             nb::arg("priority") = 0, nb::arg("timeout") = std::numeric_limits<double>::quiet_NaN(),
             nb::arg("cancel").none() = nb::none(), nb::arg("own").none() = nb::none(),
             nb::arg("common").none() = nb::none(), nb::arg("keep").none() = nb::none(), nb::arg("part") = false,
             nb::arg("caller_waits") = false,
             "Run once on the team and return when all tasks have finished. Thread-safe; releases the GIL. Each limit is the\n"
             "first one set by own, intra_op and inter_op, common, the team. If the run is ended from outside, run() does not\n"
             "wait for Python steps in other threads; the program, bound and `keep` live until these end. A `part` of the\n"
             "run around the calling step runs on that run's team instead of `team`, with its limits where it sets none. If\n"
             "the `caller_waits`, other threads execute the run: it ends in time whatever its Python steps do.")
        .def(
            "set_caps", [](PyProgram& program, const std::vector<int>& max_workers) { program.set_caps(max_workers); },
            nb::arg("max_workers"), nb::call_guard<ReleasedGil>(),
            "Cap how many workers may share each step (0: no cap), from the next op boundary on. Any thread may call this at any time.")
        .def("trim", [](PyProgram& program) { program.trim(); }, nb::call_guard<ReleasedGil>(), "Free the memory of idle contexts.")
        .def_prop_ro("id", [](const PyProgram& program) { return program.id(); }, "The program id in its trace events.")
        .def_prop_ro("arena_bytes", [](const PyProgram& program) { return program.arena_bytes(); },
                     "Bytes of one arena.")
        .def_prop_ro("cost_ns", [](const PyProgram& program) { return program.cost_ns(); }, "Estimated time of all tasks on one core.")
        .def_prop_ro("critical_path_ns", [](const PyProgram& program) { return program.critical_path_ns(); },
                     "Estimated time of the longest path of tasks.")
        .def_prop_ro("contexts", [](const PyProgram& program) { return program.contexts(); }, "How many contexts exist, idle and in use.")
        .def_prop_ro("arenas", [](const PyProgram& program) { return program.arenas(); }, "How many arenas exist, idle and in use.");
}
