#include "treadle/library_gemm.h"

#include <algorithm>

namespace treadle {

namespace {

constexpr int kRowMajor = 101;  // CBLAS_ORDER and CBLAS_TRANSPOSE
constexpr int kPlain = 111;
constexpr int kTransposed = 112;

// The kernel's arguments, in the order of library_gemm.h.
struct Args {
    const LibraryGemm* library;
    std::int64_t rows, columns, depth;
    std::int64_t a_row, a_column, b_row, b_column, out_row;
    std::int64_t batches, batches_each, rows_each, columns_each, row_chunks, column_chunks;
    std::int64_t rank;
};
static_assert(sizeof(Args) == 16 * sizeof(std::int64_t));

// A matrix as the libraries take it: row-major, transposed or not, with its leading dimension.
struct Factor {
    bool transposed;
    std::int64_t leading;
};

// A matrix of one row does not use its leading dimension, but libraries check it.
Factor factor(std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
    if (column == 1) return {false, rows > 1 ? row : std::max<std::int64_t>(columns, 1)};
    return {true, columns > 1 ? column : std::max<std::int64_t>(rows, 1)};
}

template <class T, class Int>
void cblas(void* gemm, Factor a_form, Factor b_form, std::int64_t rows, std::int64_t columns, std::int64_t depth,
           const T* a, const T* b, T* out, std::int64_t out_row) {
    using Gemm = void (*)(int, int, int, Int, Int, Int, T, const T*, Int, const T*, Int, T, T*, Int);
    reinterpret_cast<Gemm>(gemm)(kRowMajor, a_form.transposed ? kTransposed : kPlain,
                                 b_form.transposed ? kTransposed : kPlain, static_cast<Int>(rows),
                                 static_cast<Int>(columns), static_cast<Int>(depth), T(1), a,
                                 static_cast<Int>(a_form.leading), b, static_cast<Int>(b_form.leading), T(0), out,
                                 static_cast<Int>(out_row));
}

// One chunk of a step.
template <class T>
struct Chunk {
    void* const* pointers;
    const std::int64_t* args;
    std::int64_t number;
    std::int32_t status = 0;

    const Args& plain() const { return *reinterpret_cast<const Args*>(args); }

    // Adds the offsets of batch `index` in a, b and the product, in elements.
    void offsets(std::int64_t index, std::int64_t (&found)[3]) const {
        const std::int64_t rank = plain().rank;
        const std::int64_t* const sizes = args + sizeof(Args) / sizeof(std::int64_t);
        const std::int64_t* const strides = sizes + rank;
        for (std::int64_t axis = rank - 1; axis >= 0; --axis) {
            const std::int64_t at = index % sizes[axis];
            index /= sizes[axis];
            for (std::int64_t each = 0; each < 3; ++each) found[each] += at * strides[each * rank + axis];
        }
    }

    void multiply() {
        const Args& all = plain();
        const std::int64_t column_chunk = number % all.column_chunks;
        const std::int64_t row_chunk = number / all.column_chunks % all.row_chunks;
        const std::int64_t first_batch = number / all.column_chunks / all.row_chunks * all.batches_each;
        const std::int64_t last_batch = std::min(first_batch + all.batches_each, all.batches);
        const std::int64_t row = row_chunk * all.rows_each, column = column_chunk * all.columns_each;
        const std::int64_t rows = std::min(all.rows_each, all.rows - row);
        const std::int64_t columns = std::min(all.columns_each, all.columns - column);
        const Factor a_form = factor(all.a_row, all.a_column, all.rows, all.depth);
        const Factor b_form = factor(all.b_row, all.b_column, all.depth, all.columns);
        const std::int64_t out_row = all.rows > 1 ? all.out_row : all.columns;
        for (std::int64_t batch = first_batch; batch < last_batch && status == 0; ++batch) {
            std::int64_t at[3] = {row * all.a_row, column * all.b_column, row * all.out_row + column};
            offsets(batch, at);
            product(*all.library, a_form, b_form, rows, columns, all.depth, static_cast<const T*>(pointers[1]) + at[0],
                    static_cast<const T*>(pointers[2]) + at[1], static_cast<T*>(pointers[0]) + at[2], out_row);
        }
    }

    void product(const LibraryGemm& library, Factor a_form, Factor b_form, std::int64_t rows, std::int64_t columns,
                 std::int64_t depth, const T* a, const T* b, T* out, std::int64_t out_row) {
        switch (library.form) {
            case LibraryGemm::Form::cblas:
                return cblas<T, std::int32_t>(library.gemm, a_form, b_form, rows, columns, depth, a, b, out, out_row);
            case LibraryGemm::Form::cblas64:
                return cblas<T, std::int64_t>(library.gemm, a_form, b_form, rows, columns, depth, a, b, out, out_row);
            case LibraryGemm::Form::dnnl: {
                using Gemm = int (*)(char, char, std::int64_t, std::int64_t, std::int64_t, T, const T*, std::int64_t,
                                     const T*, std::int64_t, T, T*, std::int64_t);
                const int failed = reinterpret_cast<Gemm>(library.gemm)(
                    a_form.transposed ? 'T' : 'N', b_form.transposed ? 'T' : 'N', rows, columns, depth, T(1), a,
                    a_form.leading, b, b_form.leading, T(0), out, out_row);
                if (failed != 0) status = kLibraryFailed;
            }
        }
    }
};

// OneThread sets the library's number of threads for the calling thread to 1, and restores it.
class OneThread {
public:
    explicit OneThread(const LibraryGemm& library) : library_(library) {
        if (library.swap_threads != nullptr) before_ = library.swap_threads(1);
        if (library.set_threads != nullptr) {
            before_ = library.get_threads();
            if (before_ != 1) library.set_threads(1);
        }
    }
    ~OneThread() {
        if (library_.swap_threads != nullptr) library_.swap_threads(before_);
        if (library_.set_threads != nullptr && before_ != 1) library_.set_threads(before_);
    }
    OneThread(const OneThread&) = delete;
    OneThread& operator=(const OneThread&) = delete;

private:
    const LibraryGemm& library_;
    int before_ = 1;
};

template <class T>
std::int32_t run(void* const* pointers, const std::int64_t* args, std::int64_t number) {
    Chunk<T> chunk{pointers, args, number};
    const LibraryGemm& library = *chunk.plain().library;
    if (library.alone != nullptr) {
        library.alone([](void* data) { static_cast<Chunk<T>*>(data)->multiply(); }, &chunk);
    } else {
        const OneThread guard(library);
        chunk.multiply();
    }
    return chunk.status;
}

}  // namespace

std::int32_t library_sgemm(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void* /*scratch*/) {
    return run<float>(pointers, args, chunk);
}

std::int32_t library_dgemm(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void* /*scratch*/) {
    return run<double>(pointers, args, chunk);
}

}  // namespace treadle
