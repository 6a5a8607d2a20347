#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "interpreter.h"
#include "py_buffer_pool.h"
#include "py_program.h"
#include "treadle/data_branch.h"
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

// A step of a template that is made when the template is bound.
struct PyStepMaker {
    treadle::MakeHost make;
};

using PyMakers = std::vector<const PyStepMaker*>;

std::vector<treadle::MakeHost> to_makers(const PyMakers& makers) {
    std::vector<treadle::MakeHost> made;
    for (const PyStepMaker* const maker : makers) made.push_back(maker->make);
    return made;
}

std::shared_ptr<const treadle::ProgramTemplate> to_template(nb::object program_template, const PyMakers& makers) {
    const auto* code = nb::cast<const treadle::ProgramTemplate*>(program_template);
    if (code->hosts().size() != makers.size()) {
        throw std::invalid_argument("makers: wanted one for each step without a kernel = " +
                                    std::to_string(code->hosts().size()) + ", got " + std::to_string(makers.size()));
    }
    return {shared_object(std::move(program_template)), code};
}

DataStage::Source to_source(nb::object program_template, std::vector<std::size_t> order,
                            std::vector<std::optional<std::size_t>> ranks, std::vector<int> max_workers,
                            const PyMakers& makers) {
    return {to_template(std::move(program_template), makers), std::move(order), std::move(ranks),
            std::move(max_workers), to_makers(makers)};
}

using PyTemplateBody = std::tuple<nb::object, std::vector<int>, PyMakers>;

treadle::TemplateBody to_body(PyTemplateBody body) {
    auto& [program_template, max_workers, makers] = body;
    return {to_template(std::move(program_template), makers), std::move(max_workers), to_makers(makers)};
}

PyStepMaker* branch_maker(std::size_t symbols, std::size_t condition, std::vector<std::size_t> operands,
                          PyTemplateBody yes, PyTemplateBody no) {
    return new PyStepMaker{treadle::branch_maker(symbols, condition, std::move(operands), to_body(std::move(yes)),
                                                 to_body(std::move(no)))};
}

PyStepMaker* loop_maker(std::size_t symbols, PyTemplateBody body, bool has_limit, bool has_condition, bool decides,
                        std::size_t carried, std::size_t stacked, std::size_t sliced, std::size_t captured) {
    const treadle::LoopCounts counts{has_limit, has_condition, decides, carried, stacked, sliced, captured};
    return new PyStepMaker{treadle::loop_maker(symbols, counts, to_body(std::move(body)))};
}

PyControlStep* make_step(const PyDataStage& self, std::vector<std::int64_t> args, std::vector<std::size_t> counts) {
    auto step = std::make_unique<PyControlStep>();
    step->call = treadle::make_data_stage(self.stage, std::move(args), std::move(counts));
    return step.release();
}

void set_loop(const PyDataStage& self, const PyDataStage& body, bool has_limit, bool has_condition, bool is_counted,
              std::size_t rest_sizes, std::size_t body_sizes, std::vector<std::vector<bool>> carried,
              std::vector<std::vector<std::int64_t>> stacked, std::size_t sliced, std::size_t captured,
              std::vector<bool> appended) {
    treadle::DataLoop loop{body.stage,         has_limit,          has_condition, is_counted, rest_sizes,         body_sizes,
                           std::move(carried), std::move(stacked), sliced,        captured,   std::move(appended)};
    self.stage->set_ahead([loop = std::move(loop)](DataStage& stage, auto args, auto pointers) {
        treadle::run_data_loop(loop, stage, args, pointers);
    });
}

void set_branch(const PyDataStage& self, const PyDataStage& yes, const PyDataStage& no, std::size_t rest_sizes,
                std::vector<std::vector<std::int64_t>> results, std::size_t captured) {
    treadle::DataBranch branch{yes.stage, no.stage, rest_sizes, std::move(results), captured};
    self.stage->set_ahead([branch = std::move(branch)](DataStage& stage, auto args, auto pointers) {
        treadle::run_data_branch(branch, stage, args, pointers);
    });
}

// Returns the memory, which the object then no longer owns, and the shape; none if no run has made the output.
std::optional<std::pair<nb::object, std::vector<std::int64_t>>> take(SizedMemory& self) {
    if (!self.memory) return std::nullopt;
    nb::object lease = to_object(std::move(*self.memory));
    self.memory.reset();
    return std::pair{std::move(lease), self.shape};
}

// Makes the memory that `lease` owns, and the shape, those of the output at `address`.
void put(std::uintptr_t address, nb::handle lease, std::vector<std::int64_t> shape) {
    SizedMemory& output = *reinterpret_cast<SizedMemory*>(address);
    output.memory.emplace(taken_from(lease));
    output.shape = std::move(shape);
}

}  // namespace

void bind_data_stage(nb::module_& m) {
    nb::class_<PyStepMaker>(m, "StepMaker", "A step of a template that is no kernel: it is made when the template is bound.")
        .def_static("branch", &branch_maker, nb::arg("symbols"), nb::arg("condition"), nb::arg("operands"), nb::arg("yes"),
                    nb::arg("no"), nb::rv_policy::take_ownership,
                    "Return what makes a branch of two bodies (template, caps of its steps, makers of its other steps) over so\n"
                    "many symbols. `condition` and `operands` are as in ControlStep.branch().")
        .def_static("loop", &loop_maker, nb::arg("symbols"), nb::arg("body"), nb::arg("has_limit"), nb::arg("has_condition"),
                    nb::arg("decides"), nb::arg("carried"), nb::arg("stacked"), nb::arg("sliced"), nb::arg("captured"),
                    nb::rv_policy::take_ownership,
                    "Return what makes a loop over a body, as in branch(). The last arguments say how many such values it has.")
        .def_static(
            "stage",
            [](const PyDataStage& stage, std::vector<std::size_t> counts) {
                return new PyStepMaker{treadle::stage_maker(stage.stage, std::move(counts))};
            },
            nb::arg("stage"), nb::arg("counts"), nb::rv_policy::take_ownership,
            "Return what makes DataStage.step() of a stage.");
    nb::class_<SizedMemory>(m, "SizedMemory", "An output whose shape a run finds. A run is bound to the object itself.")
        .def(nb::init<>())
        .def("take", &take,
             "Return (memory, shape) and forget both; None if no run has made the output. The memory is a buffer.")
        .def_static("put", &put, nb::arg("address"), nb::arg("lease"), nb::arg("shape"),
                    "Make the memory of a lease, which then no longer owns it, and a shape those of the output at an address.");
    nb::class_<PyDataStage>(m, "DataStage", "Programs for what follows sizes that depend on data, bound in the run.")
        .def(nb::new_(&make_stage), nb::arg("element_bytes"), nb::arg("pool"), nb::arg("miss"),
             "Make a stage whose outputs have elements of so many bytes, in memory of `pool`. `miss` is called with sizes that\n"
             "no template serves: it adds one and returns None, or returns (program, shapes of its outputs).")
        .def(
            "add",
            [](const PyDataStage& self, nb::object program_template, std::vector<std::size_t> order,
               std::vector<std::optional<std::size_t>> ranks, std::vector<int> max_workers, const PyMakers& makers) {
                self.stage->add(to_source(std::move(program_template), std::move(order), std::move(ranks),
                                          std::move(max_workers), makers));
            },
            nb::arg("program_template"), nb::arg("order"), nb::arg("ranks"), nb::arg("max_workers"), nb::arg("makers"),
            "Add a template. `makers` make its steps that are no kernels, in their order. `order` are the numbers of the sizes\n"
            "that its symbols are, `ranks` those of its outputs, whose dimensions it was made to request; None: a stage makes\n"
            "the output.")
        .def(
            "replace",
            [](const PyDataStage& self, std::size_t number, nb::object program_template, std::vector<std::size_t> order,
               std::vector<std::optional<std::size_t>> ranks, std::vector<int> max_workers, const PyMakers& makers) {
                self.stage->replace(number, to_source(std::move(program_template), std::move(order), std::move(ranks),
                                                      std::move(max_workers), makers));
            },
            nb::arg("number"), nb::arg("program_template"), nb::arg("order"), nb::arg("ranks"), nb::arg("max_workers"),
            nb::arg("makers"), "Put a template in place of the one with this number; the arguments are as in add().")
        .def(
            "set_caps",
            [](const PyDataStage& self, std::size_t source, std::vector<int> max_workers) {
                self.stage->set_caps(source, std::move(max_workers));
            },
            nb::arg("source"), nb::arg("max_workers"), nb::call_guard<ReleasedGil>(),
            "Cap how many workers may share each step of the template with this number, as in Program.set_caps().")
        .def("set_loop", &set_loop, nb::arg("body"), nb::arg("has_limit"), nb::arg("has_condition"),
             nb::arg("is_counted"), nb::arg("rest_sizes"), nb::arg("body_sizes"), nb::arg("carried"), nb::arg("stacked"),
             nb::arg("sliced"), nb::arg("captured"), nb::arg("appended"),
             "Have steps run a loop over the stage `body` in front of this one. native/include/treadle/data_loop.h says what\n"
             "the arguments mean, and what arguments and pointers of steps are then.")
        .def("set_branch", &set_branch, nb::arg("yes"), nb::arg("no"), nb::arg("rest_sizes"), nb::arg("results"),
             nb::arg("captured"),
             "Have steps run one of two stages in front of this one; as native/include/treadle/data_branch.h says.")
        .def("trim", [](const PyDataStage& self) { self.stage->trim(); }, nb::call_guard<ReleasedGil>(),
             "Free idle memory.")
        .def("step", &make_step, nb::arg("args"), nb::arg("counts"), nb::rv_policy::take_ownership,
             "Return a step for the sizes `args` and those that it reads. Its pointers are those to its outputs, one for each\n"
             "of `counts` to so many sizes, and those to the operands.");
}
