#include <nanobind/nanobind.h>

#include <cerrno>
#include <memory>
#include <structmember.h>
#include <system_error>

#include "bind.h"
#include "treadle/mapped_file.h"

namespace nb = nanobind;
using treadle::MappedFile;

namespace {

// A plain CPython type, because nanobind would report files that stay mapped until the end of the process as leaks.
struct PyMappedFile {
    PyObject_HEAD
    MappedFile* file;  // never null
    PyObject* weak_references;
};

PyTypeObject* mapped_file_type = nullptr;

const MappedFile& file_of(PyObject* self) { return *reinterpret_cast<PyMappedFile*>(self)->file; }

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
    const MappedFile& file = file_of(self);
    auto* const data = const_cast<std::byte*>(file.data());
    return PyBuffer_FillInfo(view, self, data, static_cast<Py_ssize_t>(file.size()), 1, flags);
}

void deallocate(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    auto* const mapped = reinterpret_cast<PyMappedFile*>(self);
    if (mapped->weak_references != nullptr) PyObject_ClearWeakRefs(self);
    delete mapped->file;
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* get_was_cut(PyObject* self, void*) { return PyBool_FromLong(file_of(self).was_cut()); }

PyObject* release(PyObject* self, PyObject* args) {
    Py_ssize_t first = 0, last = 0;
    if (PyArg_ParseTuple(args, "nn", &first, &last) == 0) return nullptr;
    if (first < 0 || last < first) return PyErr_Format(PyExc_ValueError, "release(%zd, %zd): no range", first, last);
    file_of(self).release(static_cast<std::size_t>(first), static_cast<std::size_t>(last));
    Py_RETURN_NONE;
}

PyMemberDef members[] = {{"__weaklistoffset__", T_PYSSIZET, offsetof(PyMappedFile, weak_references), READONLY, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};
PyGetSetDef properties[] = {
    {"was_cut", get_was_cut, nullptr, "Whether a page was read that the file no longer had. It was read as zeros.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {
    {"release", release, METH_VARARGS, "Drop the pages that lie within [first, last). They are read again on use."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_doc, const_cast<char*>("A mapped part of a file, as a read-only buffer.")},
                       {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
                       {Py_tp_members, members},
                       {Py_tp_getset, properties},
                       {Py_tp_methods, methods},
                       {0, nullptr}};
PyType_Spec spec = {"treadle._native.MappedFile", sizeof(PyMappedFile), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

nb::object map_file(int handle, std::int64_t offset, std::size_t size, bool huge_pages) {
    std::unique_ptr<MappedFile> file;
    try {
        file = std::make_unique<MappedFile>(handle, offset, size, huge_pages);
    } catch (const std::system_error& error) {
        errno = error.code().value();
        PyErr_SetFromErrno(PyExc_OSError);
        throw nb::python_error();
    }
    nb::object object = nb::steal(PyType_GenericAlloc(mapped_file_type, 0));
    if (!object.is_valid()) throw nb::python_error();
    reinterpret_cast<PyMappedFile*>(object.ptr())->file = file.release();
    return object;
}

}  // namespace

void bind_mapped_file(nb::module_& m) {
    mapped_file_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    if (mapped_file_type == nullptr) throw nb::python_error();
    m.attr("MappedFile") = nb::borrow(reinterpret_cast<PyObject*>(mapped_file_type));
    m.def("map_file", &map_file, nb::arg("handle"), nb::arg("offset"), nb::arg("size"), nb::arg("huge_pages"),
          "Map a part of an open file, which stays the caller's. Raise OSError if that is not possible.");
    m.def("any_file_was_cut", &MappedFile::any_was_cut, "Return whether any mapped file was found to be cut.");
}
