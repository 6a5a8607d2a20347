// to_tuple(): Python tuples of numbers.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>

// to_tuple() returns a new tuple of these numbers.
inline nanobind::object to_tuple(std::span<const std::int64_t> numbers) {
    nanobind::object made = nanobind::steal(PyTuple_New(static_cast<Py_ssize_t>(numbers.size())));
    if (!made.is_valid()) throw nanobind::python_error();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        PyObject* const number = PyLong_FromLongLong(numbers[i]);
        if (number == nullptr) throw nanobind::python_error();
        PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), number);
    }
    return made;
}
