#include <nanobind/nanobind.h>

#include <memory>
#include <new>

#include "bind.h"
#include "treadle/shelf.h"

namespace nb = nanobind;
using treadle::Loan;
using treadle::Shelf;

namespace {

// What arrays in lent memory refer to, and so lives as long as any. A type of its own and not one of nanobind's, which
// would call results that live until the very end of the process leaks.
struct PyLoan {
    PyObject_HEAD
    Loan loan;
};

PyTypeObject* loan_type = nullptr;

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const Loan& loan = reinterpret_cast<PyLoan*>(self)->loan;
    return PyBuffer_FillInfo(view, self, loan.data(), static_cast<Py_ssize_t>(loan.size()), 0, flags);
}

void end(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    reinterpret_cast<PyLoan*>(self)->loan.~Loan();
    type->tp_free(self);
    Py_DECREF(type);
}

PyType_Slot loan_slots[] = {
    {Py_tp_doc, const_cast<char*>("Memory of results, as a buffer. It goes back to its shelf when nothing refers to it any more.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(end)},
    {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
    {0, nullptr}};
PyType_Spec loan_spec = {"treadle._native.Loan", sizeof(PyLoan), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, loan_slots};

struct PyShelf {
    std::shared_ptr<Shelf> shelf;
};

nb::object lend(const PyShelf& self) {
    Loan loan = self.shelf->lend();
    nb::object made = nb::steal(PyType_GenericAlloc(loan_type, 0));
    if (!made.is_valid()) throw nb::python_error();
    new (&reinterpret_cast<PyLoan*>(made.ptr())->loan) Loan(std::move(loan));
    return made;
}

}  // namespace

void bind_shelf(nb::module_& m) {
    loan_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&loan_spec));
    if (loan_type == nullptr) throw nb::python_error();
    m.attr("Loan") = nb::borrow(reinterpret_cast<PyObject*>(loan_type));
    nb::class_<PyShelf>(m, "Shelf", "Lends memory for results, that of earlier ones if there is any.")
        .def(
            "__init__",
            [](PyShelf* self, std::size_t size, std::size_t most_idle) {
                new (self) PyShelf{Shelf::make(size, most_idle)};
            },
            nb::arg("size"), nb::arg("most_idle"))
        .def("lend", &lend,
             "Memory that nothing else refers to, as long as the loan lives. Raises MemoryError if there is none.")
        .def("clear", [](const PyShelf& self) { self.shelf->clear(); }, "Free what lies on it.")
        .def_static("idle_bytes", &Shelf::idle_bytes, "How much lies on all shelves.");
}
