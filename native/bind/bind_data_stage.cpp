#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "interpreter.h"
#include "py_buffer_pool.h"
#include "py_program.h"
#include "treadle/data_loop.h"
#include "treadle/data_stage.h"

namespace nb = nanobind;
using treadle::DataStage;
using treadle::SizedMemory;

namespace {

struct PyDataStage {
    std::shared_ptr<DataStage> stage;
};

using PyBinding = std::pair<nb::object, std::vector<std::optional<std::vector<std::int64_t>>>>;

// Returns what `miss` returns for the sizes: None, or (program, shapes of its outputs).
std::shared_ptr<const DataStage::Binding> call_miss(PyObject* miss, std::span<const std::int64_t> sizes) {
    const HeldGil held;
    nb::list numbers;
    for (const std::int64_t size : sizes) numbers.append(size);
    nb::object made = nb::steal(or_hang([&] { return PyObject_CallOneArg(miss, numbers.ptr()); }));
    hang_if_left_running();
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    if (made.is_none()) return nullptr;
    auto [program, shapes] = nb::cast<PyBinding>(made);
    PyProgram* const code = nb::cast<PyProgram*>(program);
    auto binding = std::make_shared<DataStage::Binding>();
    binding->program = {shared_object(std::move(program)), code};
    binding->shapes = std::move(shapes);
    return binding;
}

PyDataStage* make_stage(std::vector<std::size_t> element_bytes, const PyBufferPool& pool, nb::object miss) {
    auto function = shared_object(std::move(miss));
    const auto call = [function](std::span<const std::int64_t> sizes) { return call_miss(function.get(), sizes); };
    return new PyDataStage{std::make_shared<DataStage>(std::move(element_bytes), pool.pool, call)};
}

using PyInner = std::pair<const PyDataStage*, std::vector<std::size_t>>;

void add(const PyDataStage& self, nb::object program_template, std::vector<std::size_t> order,
         std::vector<std::optional<std::size_t>> ranks, std::vector<int> max_workers, std::vector<PyInner> inner) {
    const auto* code = nb::cast<const treadle::ProgramTemplate*>(program_template);
    if (code->hosts().size() != inner.size()) {
        throw std::invalid_argument("inner: wanted a stage for each step without a kernel = " +
                                    std::to_string(code->hosts().size()) + ", got " + std::to_string(inner.size()));
    }
    DataStage::Source source{{shared_object(std::move(program_template)), code},
                             std::move(order), std::move(ranks), std::move(max_workers)};
    for (auto& [stage, counts] : inner) source.inner.push_back({stage->stage, std::move(counts)});
    self.stage->add(std::move(source));
}

PyControlStep* make_step(const PyDataStage& self, std::vector<std::int64_t> args, std::vector<std::size_t> counts) {
    auto step = std::make_unique<PyControlStep>();
    step->call = treadle::make_data_stage(self.stage, std::move(args), std::move(counts));
    return step.release();
}

void set_loop(const PyDataStage& self, const PyDataStage& body, bool has_limit, bool has_condition,
              std::size_t rest_sizes, std::size_t body_sizes, std::vector<std::vector<std::size_t>> carried,
              std::vector<std::vector<std::size_t>> stacked, std::size_t sliced, std::size_t captured) {
    self.stage->set_loop(std::make_shared<const treadle::DataLoop>(
        treadle::DataLoop{body.stage, has_limit, has_condition, rest_sizes, body_sizes, std::move(carried),
                          std::move(stacked), sliced, captured}));
}

// Returns the memory, which the object then no longer owns, and the shape; none if no run has made the output.
std::optional<std::pair<nb::object, std::vector<std::int64_t>>> take(SizedMemory& self) {
    if (!self.memory) return std::nullopt;
    nb::object lease = to_object(std::move(*self.memory));
    self.memory.reset();
    return std::pair{std::move(lease), self.shape};
}

}  // namespace

void bind_data_stage(nb::module_& m) {
    nb::class_<SizedMemory>(m, "SizedMemory", "An output whose shape a run finds. A run is bound to the object itself.")
        .def(nb::init<>())
        .def("take", &take,
             "Return (memory, shape) and forget both; None if no run has made the output. The memory is a buffer.");
    nb::class_<PyDataStage>(m, "DataStage", "Programs for what follows sizes that depend on data, bound in the run.")
        .def(nb::new_(&make_stage), nb::arg("element_bytes"), nb::arg("pool"), nb::arg("miss"),
             "Make a stage whose outputs have elements of so many bytes, in memory of `pool`. `miss` is called with sizes that\n"
             "no template serves: it adds one and returns None, or returns (program, shapes of its outputs).")
        .def("add", &add, nb::arg("program_template"), nb::arg("order"), nb::arg("ranks"), nb::arg("max_workers"),
             nb::arg("inner"),
             "Add a template of kernels and of the stages `inner`: (stage, counts) for each, in the order of their steps.\n"
             "`order` are the numbers of the sizes that its symbols are, `ranks` those of its outputs, whose dimensions it was\n"
             "made to request; None: a stage makes the output.")
        .def(
            "set_caps",
            [](const PyDataStage& self, std::size_t source, std::vector<int> max_workers) {
                self.stage->set_caps(source, std::move(max_workers));
            },
            nb::arg("source"), nb::arg("max_workers"), nb::call_guard<ReleasedGil>(),
            "Cap how many workers may share each step of the template with this number, as in Program.set_caps().")
        .def("set_loop", &set_loop, nb::arg("body"), nb::arg("has_limit"), nb::arg("has_condition"), nb::arg("rest_sizes"),
             nb::arg("body_sizes"), nb::arg("carried"), nb::arg("stacked"), nb::arg("sliced"), nb::arg("captured"),
             "Have steps run a loop over the stage `body` in front of this one. native/include/treadle/data_loop.h says what\n"
             "the arguments mean, and what arguments and pointers of steps are then.")
        .def("trim", [](const PyDataStage& self) { self.stage->trim(); }, nb::call_guard<ReleasedGil>(),
             "Free idle memory.")
        .def("step", &make_step, nb::arg("args"), nb::arg("counts"), nb::rv_policy::take_ownership,
             "Return a step for the sizes `args` and those that it reads. Its pointers are those to its outputs, one for each\n"
             "of `counts` to so many sizes, and those to the operands.");
}
