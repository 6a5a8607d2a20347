// The parts of the module, one for each header of the core.
#pragma once

#include <nanobind/nanobind.h>

void bind_library_gemm(nanobind::module_& m);
void bind_program(nanobind::module_& m);
void bind_control_flow(nanobind::module_& m);
void bind_data_stage(nanobind::module_& m);
void bind_template(nanobind::module_& m);
void bind_buffer_pool(nanobind::module_& m);
void bind_mapped_file(nanobind::module_& m);
void bind_tiling(nanobind::module_& m);
void bind_winograd(nanobind::module_& m);
void bind_team(nanobind::module_& m);
void bind_declared_arrays(nanobind::module_& m);
void bind_trace(nanobind::module_& m);

// make_exception() adds a class of exceptions to the module. It lives as long as the process.
PyObject* make_exception(nanobind::module_& m, const char* name, const char* doc);
