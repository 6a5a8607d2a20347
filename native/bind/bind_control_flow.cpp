#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bind.h"
#include "py_program.h"
#include "treadle/control_flow.h"

namespace nb = nanobind;

namespace {

using PyBody = std::pair<nb::object, std::vector<std::size_t>>;

int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    for (const auto& program : nb::inst_ptr<PyControlStep>(self)->programs) Py_VISIT(program.get());
    return 0;
}

// No tp_clear is needed, as for programs.
PyType_Slot collector_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {0, nullptr}};

// Returns the program behind `object`, which owns it and is added to `programs`.
std::shared_ptr<treadle::Program> to_program(nb::object object, std::vector<std::shared_ptr<PyObject>>& programs) {
    PyProgram* const program = nb::cast<PyProgram*>(object);
    programs.push_back(shared_object(std::move(object)));
    return {programs.back(), program};
}

PyControlStep* make_branch(std::size_t condition, PyBody yes, PyBody no) {
    auto step = std::make_unique<PyControlStep>();
    const auto to_body = [&](PyBody& body) {
        return treadle::Body{to_program(std::move(body.first), step->programs), std::move(body.second)};
    };
    treadle::Body first = to_body(yes);
    treadle::Body second = to_body(no);
    step->call = treadle::make_branch(condition, std::move(first), std::move(second));
    return step.release();
}

PyControlStep* make_loop(nb::object body, bool has_limit, bool has_condition, bool decides,
                         std::vector<std::int64_t> carried, std::vector<std::int64_t> stacked,
                         std::vector<std::int64_t> sliced, std::size_t captured, std::int64_t most) {
    auto step = std::make_unique<PyControlStep>();
    auto program = to_program(std::move(body), step->programs);
    step->call = treadle::make_loop({std::move(program), has_limit, has_condition, decides, std::move(carried),
                                     std::move(stacked), std::move(sliced), captured, most});
    return step.release();
}

}  // namespace

void bind_control_flow(nb::module_& m) {
    nb::class_<PyControlStep>(m, "ControlStep", nb::type_slots(collector_slots),
                              "A branch or loop as the code of a step. It refers to the programs of its bodies.")
        .def_static("branch", &make_branch, nb::arg("condition"), nb::arg("yes"), nb::arg("no"),
                    nb::rv_policy::take_ownership,
                    "Return a step that runs one of two bodies: (program, the number of the step's pointer for each address\n"
                    "that the program is bound to). `condition` is the number of the pointer to the byte that decides.")
        .def_static("loop", &make_loop, nb::arg("body"), nb::arg("has_limit"), nb::arg("has_condition"),
                    nb::arg("decides"), nb::arg("carried"), nb::arg("stacked"), nb::arg("sliced"),
                    nb::arg("captured"), nb::arg("most"),
                    nb::rv_policy::take_ownership,
                    "Return a step that runs the program `body` again and again. `carried` are the bytes of the carried values,\n"
                    "`stacked` and `sliced` those of an item, `most` is a limit (-1: none). native/include/treadle/control_flow.h\n"
                    "says what the others mean and in which order the pointers of the step and of the body are.");
}
