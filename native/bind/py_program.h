// PyProgram: a Program as Python sees it.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "treadle/program.h"

// PyProgram shows the callables of its steps to Python's cycle collector.
struct PyProgram : treadle::Program {
    using Program::Program;
    std::vector<std::shared_ptr<PyObject>> callables;
};

using PyBuffer = std::pair<std::string, std::int64_t>;

// to_buffer() returns buffer number `index` in the core's form. Throws std::invalid_argument for an unknown kind.
treadle::BufferSpec to_buffer(std::size_t index, const PyBuffer& buffer);

// PyHandOver has the figures of a HandOver in their order.
using PyHandOver = std::tuple<double, double, double>;
inline const PyHandOver kGenericHandOver{treadle::HandOver().wake_ns, treadle::HandOver().unpark_ns,
                                         treadle::HandOver().line_ns};

// to_hand_over() returns it in the core's form. Throws std::invalid_argument unless all are finite and above 0.
treadle::HandOver to_hand_over(const PyHandOver& figures);

// PyControlStep is a branch or loop that a program may have as a step. It shows the programs of its bodies to Python's
// cycle collector.
struct PyControlStep {
    treadle::HostCall call;
    std::vector<std::shared_ptr<PyObject>> programs;
};

// shared_object() returns a reference to the object that any thread may drop.
std::shared_ptr<PyObject> shared_object(nanobind::object object);

// to_host_call() returns a step that calls `callable` with the addresses of its operands, or the one of a
// PyControlStep. It adds the reference that the step uses to `callables`.
treadle::HostCall to_host_call(nanobind::object callable, std::vector<std::shared_ptr<PyObject>>& callables);
