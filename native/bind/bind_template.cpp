#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "interpreter.h"
#include "py_program.h"
#include "treadle/binder.h"
#include "treadle/program_template.h"
#include "tuples.h"

namespace nb = nanobind;
using treadle::BindingFailure;
using treadle::ProgramTemplate;

namespace {

using Pairs = std::vector<std::pair<std::int64_t, std::int64_t>>;
using PyStep = std::tuple<std::optional<std::uintptr_t>, Pairs, std::vector<std::int64_t>, std::int64_t, std::int64_t>;
using PyTask = std::tuple<std::int64_t, std::int64_t, bool>;
template <typename Number, typename... Form>
using Flat = nb::ndarray<const Number, Form..., nb::c_contig, nb::device::cpu>;

PyObject* binding_failure = nullptr;

const char* name_of(BindingFailure::Kind kind) {
    switch (kind) {
        case BindingFailure::Kind::overflow: return "overflow";
        case BindingFailure::Kind::division: return "division";
        case BindingFailure::Kind::range: return "range";
        case BindingFailure::Kind::guard: return "guard";
        case BindingFailure::Kind::requested: return "requested";
        case BindingFailure::Kind::step: return "step";
        case BindingFailure::Kind::buffer: return "buffer";
        case BindingFailure::Kind::scratch: return "scratch";
        case BindingFailure::Kind::arena: return "arena";
    }
    return "";
}

// Returns what `call` returns, with BindingFailure as Python's exception.
template <typename Call>
auto translate_failure(const Call& call) {
    try {
        return call();
    } catch (const BindingFailure& failure) {
        nb::object error = nb::borrow(binding_failure)(failure.what());
        error.attr("kind") = name_of(failure.kind);
        error.attr("number") = failure.number;
        PyErr_SetObject(binding_failure, error.ptr());
        throw nb::python_error();
    }
}

template <typename Number>
std::vector<Number> copied(const Flat<Number, nb::ndim<1>>& array) {
    return {array.data(), array.data() + array.size()};
}

std::vector<treadle::Binder::Operation> to_operations(const Flat<std::int32_t, nb::shape<-1, 2>>& rows) {
    std::vector<treadle::Binder::Operation> operations;
    operations.reserve(rows.shape(0));
    for (std::size_t i = 0; i < rows.shape(0); ++i) operations.push_back({rows.data()[2 * i], rows.data()[2 * i + 1]});
    return operations;
}

ProgramTemplate* make_template(std::int64_t symbols, const Flat<std::int64_t, nb::ndim<1>>& constants,
                               const Flat<std::int32_t, nb::shape<-1, 2>>& operations,
                               const Flat<std::int32_t, nb::ndim<1>>& operands, std::vector<PyStep> steps,
                               const std::vector<PyTask>& tasks, std::vector<std::vector<std::int64_t>> successors,
                               const std::vector<PyBuffer>& buffers, Pairs rivals, std::int64_t scratch_bytes,
                               std::vector<std::int64_t> guards, std::vector<std::int64_t> requested,
                               const std::vector<int>& max_workers, const PyHandOver& hand_over) {
    if (!max_workers.empty() && max_workers.size() != steps.size()) {
        throw std::invalid_argument("max_workers: wanted one number a step = " + std::to_string(steps.size()) +
                                    ", got " + std::to_string(max_workers.size()));
    }
    treadle::TemplateSpec spec;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        auto& [kernel, pointers, args, chunks, cost_ns] = steps[i];
        treadle::StepTemplate step;
        if (kernel == std::uintptr_t{0}) {
            throw std::invalid_argument("step " + std::to_string(i) +
                                        ": wanted either a non-null kernel address or None for a callable");
        }
        step.kernel = reinterpret_cast<treadle::Kernel>(kernel.value_or(0));
        for (const auto& [buffer, offset] : pointers) step.pointers.push_back({buffer, offset});
        step.args = std::move(args);
        step.chunks = chunks;
        step.cost_ns = cost_ns;
        step.max_workers = max_workers.empty() ? 0 : max_workers[i];
        spec.steps.push_back(std::move(step));
    }
    for (const auto& [first, count, blocking] : tasks) spec.tasks.push_back({first, count, 0, blocking});
    spec.successors = std::move(successors);
    for (std::size_t i = 0; i < buffers.size(); ++i) spec.buffers.push_back(to_buffer(i, buffers[i]));
    spec.rivals = std::move(rivals);
    spec.scratch_bytes = scratch_bytes;
    spec.guards = std::move(guards);
    spec.requested = std::move(requested);
    spec.hand_over = to_hand_over(hand_over);
    return new ProgramTemplate(
        treadle::Binder(symbols, copied(constants), to_operations(operations), copied(operands)), std::move(spec));
}

ProgramTemplate::Sizes evaluate(const ProgramTemplate& program, const std::vector<std::int64_t>& symbols) {
    return translate_failure([&] { return program.evaluate(symbols); });
}

std::vector<treadle::Location> to_locations(const Pairs& outputs) {
    std::vector<treadle::Location> locations;
    locations.reserve(outputs.size());
    for (const auto& [memory, offset] : outputs) locations.push_back({memory, offset});
    return locations;
}

PyProgram* bind(const ProgramTemplate& program, const ProgramTemplate::Sizes& sizes,
                const Pairs& outputs, const std::vector<int>& max_workers, const std::vector<nb::object>& functions,
                bool shares_id) {
    const std::vector<treadle::Location> locations = to_locations(outputs);
    std::vector<std::shared_ptr<PyObject>> callables;
    std::vector<treadle::HostCall> hosts;
    hosts.reserve(functions.size());
    for (const nb::object& function : functions) hosts.push_back(to_host_call(function, callables));
    return translate_failure([&] {
        const ReleasedGil released;
        auto bound = program.bind<PyProgram>(sizes, locations, max_workers, hosts, shares_id);
        bound->callables = std::move(callables);
        return bound.release();
    });
}

using Ranks = std::vector<std::optional<std::int64_t>>;

// Returns the values, so many in a tuple as the next of `ranks` says, or None in place of a tuple.
nb::list in_tuples(std::span<const std::int64_t> values, const Ranks& ranks) {
    nb::list tuples;
    for (const std::optional<std::int64_t>& rank : ranks) {
        if (!rank) {
            tuples.append(nb::none());
            continue;
        }
        if (*rank < 0 || static_cast<std::size_t>(*rank) > values.size()) {
            throw std::invalid_argument("ranks: wanted those of the requested sizes");
        }
        tuples.append(to_tuple(values.first(static_cast<std::size_t>(*rank))));
        values = values.subspan(static_cast<std::size_t>(*rank));
    }
    return tuples;
}

nb::list requested(const ProgramTemplate& program, const ProgramTemplate::Sizes& sizes, const Ranks& ranks) {
    return in_tuples(program.requested(sizes), ranks);
}

// Returns the requested sizes.
nb::list evaluate_next(const ProgramTemplate& program, ProgramTemplate::Rebinding& rebinding,
                       const std::vector<std::int64_t>& symbols, const Ranks& ranks) {
    return translate_failure(
        [&] { return in_tuples(program.requested(program.evaluate(rebinding, symbols)), ranks); });
}

// Returns `bound`, or a new program if that is None or in use.
nb::object bind_next(const ProgramTemplate& program, ProgramTemplate::Rebinding& rebinding, nb::object bound,
                     const Pairs& outputs, const std::vector<int>& max_workers) {
    const std::vector<treadle::Location> locations = to_locations(outputs);
    return translate_failure([&] {
        if (!bound.is_none() && program.rebind(rebinding, *nb::cast<PyProgram*>(bound), locations, max_workers)) {
            return bound;
        }
        return nb::cast(program.bind<PyProgram>(rebinding, locations, max_workers).release(),
                        nb::rv_policy::take_ownership);
    });
}

nb::tuple rebind(const ProgramTemplate& program, ProgramTemplate::Rebinding& rebinding,
                 const std::vector<std::int64_t>& symbols, nb::object bound, const Pairs& outputs,
                 const std::vector<int>& max_workers, const Ranks& ranks) {
    const nb::list sizes = evaluate_next(program, rebinding, symbols, ranks);
    return nb::make_tuple(sizes, bind_next(program, rebinding, std::move(bound), outputs, max_workers));
}

}  // namespace

void bind_template(nb::module_& m) {
    binding_failure = make_exception(m, "BindingFailure",
                                     "A template does not serve the given sizes. Attributes: kind, number.");
    nb::class_<ProgramTemplate::Sizes>(m, "Sizes", "The values of all slots of a template for given symbols.");
    nb::class_<ProgramTemplate::Rebinding>(m, "Rebinding",
                                           "What a program needs to be bound to one combination of sizes after another.")
        .def(nb::init<>());
    nb::class_<ProgramTemplate>(m, "ProgramTemplate",
                                "A program whose arguments and memory are computed when it is bound to sizes.")
        .def(nb::new_(&make_template), nb::arg("symbols"), nb::arg("constants"), nb::arg("operations"),
             nb::arg("operands"), nb::arg("steps"), nb::arg("tasks"), nb::arg("successors"), nb::arg("buffers"),
             nb::arg("rivals"), nb::arg("scratch_bytes"), nb::arg("guards"), nb::arg("requested"),
             nb::arg("max_workers") = std::vector<int>(), nb::arg("hand_over") = kGenericHandOver)
        .def("evaluate", &evaluate, nb::arg("symbols"),
             "Return the sizes for the symbols' values. Raise BindingFailure if an operation fails or a guard does not hold.")
        .def("requested", &requested, nb::arg("sizes"), nb::arg("ranks"),
             "Return the values of the requested slots, so many in a tuple as the next of `ranks` says, or None in place of a\n"
             "tuple.")
        .def("args", &ProgramTemplate::args, nb::arg("sizes"), nb::arg("step"), "Return the values of the step's arguments.")
        .def("bind", &bind, nb::arg("sizes"), nb::arg("outputs") = Pairs(), nb::arg("max_workers") = std::vector<int>(),
             nb::arg("functions") = std::vector<nb::object>(), nb::arg("shares_id") = false,
             "Return a Program for the sizes. `outputs` says where the outputs lie: (number of the memory after the inputs, byte\n"
             "offset) of each; empty: each in its own. `functions` are the callables of the steps without a kernel, in order.\n"
             "If `shares_id` is true, the program's id is program_id.")
        .def("evaluate_next", &evaluate_next, nb::arg("rebinding"), nb::arg("symbols"), nb::arg("ranks"),
             "Return what requested() does for the next bind_next() with the symbols' values. Raises as evaluate() does.")
        .def("bind_next", &bind_next, nb::arg("rebinding"), nb::arg("bound").none(), nb::arg("outputs") = Pairs(),
             nb::arg("max_workers") = std::vector<int>(),
             "Bind `bound`, a program that this function has returned for the rebinding, to the sizes of evaluate_next(), and\n"
             "return it. Return a new program if `bound` is None or in use by a run. No run of it may begin meanwhile.")
        .def("rebind", &rebind, nb::arg("rebinding"), nb::arg("symbols"), nb::arg("bound"), nb::arg("outputs"),
             nb::arg("max_workers"), nb::arg("ranks"),
             "Do what evaluate_next() does, and then bind_next() with `bound`. Return what both do.")
        .def_prop_ro("program_id", &ProgramTemplate::program_id,
                     "The id, in trace events, of the programs of data stages, of bind_next(), and of bind() with `shares_id`.")
        .def_prop_ro("arena_allocations", &ProgramTemplate::arena_allocations,
                     "How many arenas its programs have allocated so far.")
        .def("trim", &ProgramTemplate::trim, nb::call_guard<ReleasedGil>(),
             "Free the arenas that no run of its programs uses.");
}
