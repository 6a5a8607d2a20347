#include <nanobind/nanobind.h>

#include <memory>
#include <new>

#include "bind.h"
#include "py_buffer_pool.h"

namespace nb = nanobind;
using treadle::BufferPool;
using treadle::Lease;

namespace {

// The base object of arrays in pooled memory, which lives as long as any of them. It is a plain CPython type, because
// nanobind would report results that live until the end of the process as leaks.
struct PyLease {
    PyObject_HEAD
    Lease lease;
};

PyTypeObject* lease_type = nullptr;

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const Lease& lease = reinterpret_cast<PyLease*>(self)->lease;
    return PyBuffer_FillInfo(view, self, lease.data(), static_cast<Py_ssize_t>(lease.size()), 0, flags);
}

void deallocate(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    reinterpret_cast<PyLease*>(self)->lease.~Lease();
    type->tp_free(self);
    Py_DECREF(type);
}

PyType_Slot lease_type_slots[] = {
    {Py_tp_doc, const_cast<char*>("Memory of results, as a buffer. It returns to its pool when nothing refers to it any more.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {0, nullptr}};
PyType_Spec lease_spec = {"treadle._native.Lease", sizeof(PyLease), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, lease_type_slots};

nb::object acquire(const PyBufferPool& self, std::size_t size) { return to_object(self.pool->acquire(size)); }

}  // namespace

nb::object to_object(Lease lease) {
    nb::object object = nb::steal(PyType_GenericAlloc(lease_type, 0));
    if (!object.is_valid()) throw nb::python_error();
    new (&reinterpret_cast<PyLease*>(object.ptr())->lease) Lease(std::move(lease));
    return object;
}

Lease taken_from(nb::handle object) {
    if (!PyObject_TypeCheck(object.ptr(), lease_type)) throw nb::cast_error();
    return std::move(reinterpret_cast<PyLease*>(object.ptr())->lease);
}

void bind_buffer_pool(nb::module_& m) {
    lease_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&lease_spec));
    if (lease_type == nullptr) throw nb::python_error();
    m.attr("Lease") = nb::borrow(reinterpret_cast<PyObject*>(lease_type));
    nb::class_<PyBufferPool>(m, "BufferPool", "Leases memory for results, reusing that of earlier results.")
        .def(
            "__init__",
            [](PyBufferPool* self, std::size_t max_idle_bytes, bool shared) {
                new (self) PyBufferPool{BufferPool::make(max_idle_bytes, shared)};
            },
            nb::arg("max_idle_bytes"), nb::arg("shared"))
        .def("acquire", &acquire, nb::arg("size"),
             "Return memory that nothing else refers to while the lease lives. Raise MemoryError if there is none.")
        .def_prop_ro("allocations", [](const PyBufferPool& self) { return self.pool->allocations(); },
                     "How many buffers it has allocated since it was made.")
        .def("clear", [](const PyBufferPool& self) { self.pool->clear(); }, "Free the idle buffers of this pool.")
        .def_static("idle_bytes", &BufferPool::idle_bytes, "Return the size of the idle buffers of all pools.");
}
