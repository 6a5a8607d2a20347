// Kernels that multiply matrices by another library's gemm.
#pragma once

#include <cstdint>

namespace treadle {

// LibraryGemm is one library's product of row-major matrices of one element type, and the functions that confine it to
// the calling thread. It must outlive the programs that use it.
struct LibraryGemm {
    enum class Form : std::int64_t {
        cblas,    // cblas_?gemm with ints of 32 bits
        cblas64,  // cblas_?gemm with ints of 64 bits
        dnnl,     // dnnl_sgemm
    };
    Form form;
    void* gemm;
    // The library's omp_get_max_threads and omp_set_num_threads, which apply to the calling thread.
    int (*get_threads)() = nullptr;
    void (*set_threads)(int) = nullptr;
    // Sets the calling thread's number of threads and returns the previous one (MKL_Set_Num_Threads_Local).
    int (*swap_threads)(int) = nullptr;
    // Calls body(data) where the library finds only the calling thread (an arena of oneTBB).
    void (*alone)(void (*body)(void*), void* data) = nullptr;
};

// kLibraryFailed is the kernels' code for a failure that the library reports; plan/status.py has its text.
inline constexpr std::int32_t kLibraryFailed = 3;

// library_sgemm() and library_dgemm() are the kernels for 4-byte and 8-byte elements. Pointers: the product, a, b. Arguments,
// with strides in elements:
//   LibraryGemm*, rows, columns, depth, a.row, a.column, b.row, b.column, out.row,
//   batches, batches per chunk, rows per chunk, columns per chunk, chunks of rows, chunks of columns,
//   rank, then rank batch sizes, then rank batch strides each of a, b and the product.
// In a and in b one of the row and column strides is 1; the product's columns are contiguous.
std::int32_t library_sgemm(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void* scratch);
std::int32_t library_dgemm(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void* scratch);

}  // namespace treadle
