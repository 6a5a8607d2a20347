#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bind.h"
#include "tuples.h"

namespace nb = nanobind;

namespace {

using PyInput = std::tuple<nb::object, nb::object, std::vector<std::variant<std::int64_t, std::string>>>;

// A dimension of a declared shape: a size, or the number of a symbol.
struct Dim {
    std::int64_t size;
    std::size_t symbol;
    bool is_open;
};

struct Input {
    nb::object name;
    nb::object dtype;
    std::vector<Dim> dims;
};

// The declared inputs of a session, and the type of arrays.
struct DeclaredArrays {
    PyTypeObject* array_type;
    std::vector<Input> inputs;
    std::vector<nb::str> symbols;  // the names of open dimensions, each where it occurs first
};

// Holds a buffer of a C-contiguous array; `is_valid` is false if the object has none.
class Buffer {
public:
    explicit Buffer(PyObject* array) : is_valid(PyObject_GetBuffer(array, &view, PyBUF_C_CONTIGUOUS) == 0) {
        if (!is_valid) PyErr_Clear();
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() {
        if (is_valid) PyBuffer_Release(&view);
    }
    Py_buffer view;
    const bool is_valid;
};

DeclaredArrays* make(nb::handle array_type, std::vector<PyInput> inputs) {
    auto made = std::make_unique<DeclaredArrays>();
    std::map<std::string, std::size_t> numbers;
    made->array_type = reinterpret_cast<PyTypeObject*>(array_type.ptr());
    for (auto& [name, dtype, dims] : inputs) {
        Input& input = made->inputs.emplace_back(Input{std::move(name), std::move(dtype), {}});
        for (const auto& dim : dims) {
            if (const auto* size = std::get_if<std::int64_t>(&dim)) {
                input.dims.push_back({*size, 0, false});
                continue;
            }
            const auto& symbol = std::get<std::string>(dim);
            const auto [known, is_new] = numbers.try_emplace(symbol, made->symbols.size());
            input.dims.push_back({0, known->second, true});
            if (is_new) made->symbols.emplace_back(symbol.c_str(), symbol.size());
        }
    }
    return made.release();
}

// Puts the shape of `array` into `shape` and the sizes of symbols into `sizes`, of which -1 are not known yet. Returns
// false if the array is not just as declared.
bool fits(const DeclaredArrays& self, const Input& input, PyObject* array, std::vector<std::int64_t>& shape,
          std::vector<std::int64_t>& sizes) {
    if (array == nullptr || Py_TYPE(array) != self.array_type) return false;
    const nb::object dtype = nb::steal(PyObject_GetAttrString(array, "dtype"));
    if (!dtype.is_valid()) throw nb::python_error();
    if (dtype.ptr() != input.dtype.ptr()) return false;
    const Buffer buffer(array);
    if (!buffer.is_valid || static_cast<std::size_t>(buffer.view.ndim) != input.dims.size()) return false;
    shape.clear();
    for (std::size_t axis = 0; axis < input.dims.size(); ++axis) {
        const Dim& dim = input.dims[axis];
        const std::int64_t size = buffer.view.shape[axis];
        std::int64_t wanted = dim.size;
        if (dim.is_open) {
            std::int64_t& known = sizes[dim.symbol];
            if (known < 0) known = size;
            wanted = known;
        }
        if (size != wanted) return false;
        shape.push_back(size);
    }
    return true;
}

// Arrays that were checked: what arrays must be like that need no check.
struct KnownArrays {
    struct Known {
        nb::object name;
        nb::object dtype;
        std::vector<Py_ssize_t> shape;
    };
    PyTypeObject* array_type;
    std::vector<Known> arrays;
};

KnownArrays* make_known(nb::handle array_type, nb::handle names, nb::handle arrays) {
    auto made = std::make_unique<KnownArrays>();
    made->array_type = reinterpret_cast<PyTypeObject*>(array_type.ptr());
    auto name = nb::iter(names);
    for (const nb::handle array : nb::iter(arrays)) {
        const Buffer buffer(array.ptr());
        if (name == nb::iterator::sentinel() || !buffer.is_valid) {
            throw std::invalid_argument("wanted as many C-contiguous arrays as names");
        }
        made->arrays.push_back({nb::borrow(*name), nb::getattr(array, "dtype"),
                                {buffer.view.shape, buffer.view.shape + buffer.view.ndim}});
        ++name;
    }
    return made.release();
}

// `any_dtype_object`: whether the dtype may be equal to the known one without being the same object.
bool is_known(const KnownArrays& self, const KnownArrays::Known& known, PyObject* array, bool any_dtype_object) {
    if (array == nullptr || Py_TYPE(array) != self.array_type) return false;
    const nb::object dtype = nb::steal(PyObject_GetAttrString(array, "dtype"));
    if (!dtype.is_valid()) throw nb::python_error();
    if (dtype.ptr() != known.dtype.ptr() && !(any_dtype_object && dtype.equal(known.dtype))) return false;
    const Buffer buffer(array);
    return buffer.is_valid && std::ranges::equal(std::span(buffer.view.shape, static_cast<std::size_t>(buffer.view.ndim)),
                                                 known.shape);
}

nb::object known_arrays(const KnownArrays& self, nb::handle given) {
    if (!PyDict_CheckExact(given.ptr())) return nb::none();
    if (static_cast<std::size_t>(PyDict_GET_SIZE(given.ptr())) != self.arrays.size()) return nb::none();
    nb::object found = nb::steal(PyList_New(static_cast<Py_ssize_t>(self.arrays.size())));
    if (!found.is_valid()) throw nb::python_error();
    for (std::size_t i = 0; i < self.arrays.size(); ++i) {
        PyObject* const array = PyDict_GetItemWithError(given.ptr(), self.arrays[i].name.ptr());
        if (array == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
        if (!is_known(self, self.arrays[i], array, false)) return nb::none();
        PyList_SET_ITEM(found.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(array));
    }
    return found;
}

bool matches(const KnownArrays& self, nb::handle arrays) {
    std::size_t number = 0;
    for (const nb::handle array : nb::iter(arrays)) {
        if (number == self.arrays.size() || !is_known(self, self.arrays[number++], array.ptr(), true)) return false;
    }
    return number == self.arrays.size();
}

nb::object fit(const DeclaredArrays& self, nb::handle given) {
    if (!PyDict_CheckExact(given.ptr())) return nb::none();
    if (static_cast<std::size_t>(PyDict_GET_SIZE(given.ptr())) != self.inputs.size()) return nb::none();
    nb::list arrays;
    nb::object shapes = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(self.inputs.size())));
    if (!shapes.is_valid()) throw nb::python_error();
    std::vector<std::int64_t> shape, sizes(self.symbols.size(), -1);
    for (std::size_t i = 0; i < self.inputs.size(); ++i) {
        const Input& input = self.inputs[i];
        PyObject* const array = PyDict_GetItemWithError(given.ptr(), input.name.ptr());
        if (array == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
        if (!fits(self, input, array, shape, sizes)) return nb::none();
        arrays.append(nb::borrow(array));
        PyTuple_SET_ITEM(shapes.ptr(), static_cast<Py_ssize_t>(i), to_tuple(shape).release().ptr());
    }
    nb::dict by_name;
    for (std::size_t i = 0; i < sizes.size(); ++i) by_name[self.symbols[i]] = sizes[i];
    return nb::make_tuple(arrays, shapes, by_name);
}

}  // namespace

void bind_declared_arrays(nb::module_& m) {
    nb::class_<DeclaredArrays>(m, "DeclaredArrays",
                               "The declared inputs of a session, which recognise arrays that need no closer look.")
        .def(nb::new_(&make), nb::arg("array_type"), nb::arg("inputs"),
             "`array_type` is NumPy's type of arrays, which lives as long as the process. `inputs` are (name, dtype, shape) of\n"
             "each: an int in a shape is a size, a str an open dimension.")
        .def("fit", &fit, nb::arg("given").none(),
             "Return (arrays, shapes, sizes of open dimensions by name) of the dict `given`, in the order of the inputs; None unless\n"
             "it has just these inputs, all of them C-contiguous arrays of the declared dtypes and shapes.");
    nb::class_<KnownArrays>(m, "KnownArrays", "Arrays that were checked, which recognise others like them.")
        .def(nb::new_(&make_known), nb::arg("array_type"), nb::arg("names"), nb::arg("arrays"),
             "`array_type` is as in DeclaredArrays. `names` are those of the `arrays`, which are C-contiguous.")
        .def("arrays", &known_arrays, nb::arg("given").none(),
             "Return the arrays of the dict `given` in the order of the names; None unless it has just these names, and\n"
             "C-contiguous arrays of the same dtypes and shapes.")
        .def("matches", &matches, nb::arg("arrays"), "True if `arrays`, in the order of the names, are like these.");
}
