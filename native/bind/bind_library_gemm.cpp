#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <deque>
#include <stdexcept>
#include <string>
#include <utility>

#include "bind.h"
#include "treadle/library_gemm.h"

namespace nb = nanobind;
using treadle::LibraryGemm;

namespace {

LibraryGemm::Form to_form(const std::string& name) {
    if (name == "cblas") return LibraryGemm::Form::cblas;
    if (name == "cblas64") return LibraryGemm::Form::cblas64;
    if (name == "dnnl") return LibraryGemm::Form::dnnl;
    throw std::invalid_argument("library_gemm: form must be 'cblas', 'cblas64' or 'dnnl', got '" + name + "'");
}

template <class Function>
void set(Function& function, std::uintptr_t address) {
    function = reinterpret_cast<Function>(address);
}

// A LibraryGemm is never freed: plans refer to it by address, and a process makes a handful.
std::pair<std::uintptr_t, std::uintptr_t> library_gemm(const std::string& form, bool is_double, std::uintptr_t gemm,
                                                       std::uintptr_t get_threads, std::uintptr_t set_threads,
                                                       std::uintptr_t swap_threads, std::uintptr_t alone) {
    static auto* const all = new std::deque<LibraryGemm>;
    LibraryGemm& made = all->emplace_back();
    made.form = to_form(form);
    set(made.gemm, gemm);
    set(made.get_threads, get_threads);
    set(made.set_threads, set_threads);
    set(made.swap_threads, swap_threads);
    set(made.alone, alone);
    const auto kernel = is_double ? &treadle::library_dgemm : &treadle::library_sgemm;
    return {reinterpret_cast<std::uintptr_t>(kernel), reinterpret_cast<std::uintptr_t>(&made)};
}

}  // namespace

void bind_library_gemm(nb::module_& m) {
    m.def("library_gemm", &library_gemm, nb::arg("form"), nb::arg("is_double"), nb::arg("gemm"),
          nb::arg("get_threads") = 0, nb::arg("set_threads") = 0, nb::arg("swap_threads") = 0, nb::arg("alone") = 0,
          "Return (address of a kernel, its first argument) that multiply by the library function at address `gemm`.");
}
