// Matrix products by another library's gemm, as kernels.
#pragma once

#include <cstdint>

namespace treadle {

// LibraryGemm is one library's product of row-major matrices of one element type, and how to keep it in the calling
// thread. It must outlive the programs that use it.
struct LibraryGemm {
    enum class Form : std::int64_t {
        cblas,    // cblas_?gemm with ints of 32 bits
        cblas64,  // cblas_?gemm with ints of 64 bits
        dnnl,     // dnnl_sgemm
    };
    Form form;
    void* gemm;
    // OpenMP's omp_get_max_threads and omp_set_num_threads as the library has them: numbers of the calling thread.
    int (*get_threads)() = nullptr;
    void (*set_threads)(int) = nullptr;
    // Sets the calling thread's number and returns the one before (MKL_Set_Num_Threads_Local).
    int (*swap_threads)(int) = nullptr;
    // Calls body(data) where the library finds one thread, this one (an arena of oneTBB).
    void (*alone)(void (*body)(void*), void* data) = nullptr;
};

// kLibraryFailed is returned where the library reports a failure; plan/status.py says what it means.
inline constexpr std::int32_t kLibraryFailed = 3;

// The kernels, for 4-byte and 8-byte elements. Pointers: the product, a, b. Args, strides in elements:
//   LibraryGemm*, rows, columns, depth, a.row, a.column, b.row, b.column, out.row,
//   batches, batches, rows and columns of a chunk, chunks of rows and of columns,
//   rank, then rank batch sizes, then rank batch strides each of a, b and the product.
// One of row and column is 1 in a and in b; the product's columns are contiguous.
std::int32_t library_sgemm(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void* scratch);
std::int32_t library_dgemm(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void* scratch);

}  // namespace treadle
