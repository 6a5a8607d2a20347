// PyProgram: a Program as Python sees it.
#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
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

// to_host_call() returns a step that calls `callable` with the addresses of its operands, and adds the reference that it
// uses to `callables`.
treadle::HostCall to_host_call(nanobind::object callable, std::vector<std::shared_ptr<PyObject>>& callables);
