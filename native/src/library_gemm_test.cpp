#include "treadle/library_gemm.h"

#include <vector>

#include "treadle/check.h"
#include "treadle/program.h"

namespace treadle {

namespace {

int threads = 8;  // what the simulated library would use on this thread
int most_seen = 0;
int alone_calls = 0;

int get_threads() { return threads; }
void set_threads(int count) { threads = count; }
int swap_threads(int count) {
    const int before = threads;
    threads = count;
    return before;
}
void alone(void (*body)(void*), void* data) {
    ++alone_calls;
    body(data);
}

// cblas_?gemm and dnnl_sgemm in three loops.
template <class T, class Int>
void multiply(bool a_transposed, bool b_transposed, Int m, Int n, Int k, const T* a, Int lda, const T* b, Int ldb, T* c,
              Int ldc) {
    most_seen = threads > most_seen ? threads : most_seen;
    for (Int i = 0; i < m; ++i) {
        for (Int j = 0; j < n; ++j) {
            T sum = 0;
            for (Int l = 0; l < k; ++l) {
                sum += (a_transposed ? a[l * lda + i] : a[i * lda + l]) * (b_transposed ? b[j * ldb + l] : b[l * ldb + j]);
            }
            c[i * ldc + j] = sum;
        }
    }
}

template <class T, class Int>
void cblas(int, int a_form, int b_form, Int m, Int n, Int k, T, const T* a, Int lda, const T* b, Int ldb, T, T* c,
           Int ldc) {
    multiply(a_form == 112, b_form == 112, m, n, k, a, lda, b, ldb, c, ldc);
}

int dnnl(char a_form, char b_form, std::int64_t m, std::int64_t n, std::int64_t k, float, const float* a,
         std::int64_t lda, const float* b, std::int64_t ldb, float, float* c, std::int64_t ldc) {
    multiply(a_form == 'T', b_form == 'T', m, n, k, a, lda, b, ldb, c, ldc);
    return 0;
}

int failing(char, char, std::int64_t, std::int64_t, std::int64_t, float, const float*, std::int64_t, const float*,
            std::int64_t, float, float*, std::int64_t) {
    return 2;
}

constexpr std::int64_t kBatches = 3, kRows = 7, kColumns = 11, kDepth = 5;

// The batch of products a[i] @ b, b stored transposed, in chunks of 2 batches, 4 rows and 6 columns.
template <class T>
void check_products(const LibraryGemm& library, Kernel kernel) {
    std::vector<T> a(kBatches * kRows * kDepth), b(kColumns * kDepth), c(kBatches * kRows * kColumns, T(-1));
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(i % 13);
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(i % 7);
    void* const pointers[] = {c.data(), a.data(), b.data()};
    const std::int64_t args[] = {reinterpret_cast<std::int64_t>(&library), kRows, kColumns, kDepth, kDepth, 1, 1, kDepth,
                                 kColumns, kBatches, 2, 4, 6, 2, 2, 1, kBatches, kRows * kDepth, 0, kRows * kColumns};
    for (std::int64_t chunk = 8; chunk-- > 0;) CHECK_EQUAL(0, kernel(pointers, args, chunk, nullptr));
    for (std::int64_t batch = 0; batch < kBatches; ++batch) {
        for (std::int64_t i = 0; i < kRows; ++i) {
            for (std::int64_t j = 0; j < kColumns; ++j) {
                T sum = 0;
                for (std::int64_t l = 0; l < kDepth; ++l) {
                    sum += a[static_cast<std::size_t>((batch * kRows + i) * kDepth + l)] *
                           b[static_cast<std::size_t>(j * kDepth + l)];
                }
                CHECK_EQUAL(sum, c[static_cast<std::size_t>((batch * kRows + i) * kColumns + j)]);
            }
        }
    }
}

void* address(auto* function) { return reinterpret_cast<void*>(function); }

}  // namespace

TREADLE_TEST(every_chunk_of_a_library_product_is_correct) {
    check_products<float>({LibraryGemm::Form::cblas, address(&cblas<float, std::int32_t>)}, library_sgemm);
    check_products<double>({LibraryGemm::Form::cblas, address(&cblas<double, std::int32_t>)}, library_dgemm);
    check_products<float>({LibraryGemm::Form::cblas64, address(&cblas<float, std::int64_t>)}, library_sgemm);
    check_products<double>({LibraryGemm::Form::cblas64, address(&cblas<double, std::int64_t>)}, library_dgemm);
    check_products<float>({LibraryGemm::Form::dnnl, address(&dnnl)}, library_sgemm);
}

TREADLE_TEST(the_library_uses_one_thread_and_its_setting_is_restored) {
    LibraryGemm library{LibraryGemm::Form::dnnl, address(&dnnl)};
    library.get_threads = get_threads;
    library.set_threads = set_threads;
    threads = 8, most_seen = 0;
    check_products<float>(library, library_sgemm);
    CHECK_EQUAL(1, most_seen);
    CHECK_EQUAL(8, threads);

    LibraryGemm local{LibraryGemm::Form::dnnl, address(&dnnl)};
    local.swap_threads = swap_threads;
    most_seen = 0;
    check_products<float>(local, library_sgemm);
    CHECK_EQUAL(1, most_seen);
    CHECK_EQUAL(8, threads);
}

TREADLE_TEST(a_library_of_oneTBB_is_called_in_an_arena_of_its_own) {
    LibraryGemm library{LibraryGemm::Form::dnnl, address(&dnnl)};
    library.alone = alone;
    alone_calls = 0;
    check_products<float>(library, library_sgemm);
    CHECK_EQUAL(8, alone_calls);
}

TREADLE_TEST(a_library_failure_is_returned_as_a_status) {
    const LibraryGemm library{LibraryGemm::Form::dnnl, address(&failing)};
    float a = 1, b = 1, c = 0;
    void* const pointers[] = {&c, &a, &b};
    const std::int64_t args[] = {reinterpret_cast<std::int64_t>(&library), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
    CHECK_EQUAL(kLibraryFailed, library_sgemm(pointers, args, 0, nullptr));
}

}  // namespace treadle
