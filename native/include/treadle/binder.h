// Binder: computes the sizes of a plan with open dimensions for given values of its symbols.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "treadle/prefetch.h"
#include "treadle/tiling.h"

namespace treadle {

// BinderOp is an operation on slots. Plans on disk hold these numbers. Integers are int64, reals are doubles; both
// compute as Python does.
enum class BinderOp : std::int32_t {
    add,        // int, int -> int; fails on overflow, as sub and mul do
    sub,
    mul,
    floordiv,   // rounds down; fails if the divisor is 0
    min,
    max,
    is_zero,      // int -> 1 or 0, like all operations that answer a question
    is_negative,  // int -> int
    logical_not,  // int -> int: is the operand 0?
    to_real,    // int -> real
    real_add,   // real, real -> real, as up to real_max
    real_sub,
    real_mul,
    real_div,   // fails if the divisor is 0
    real_min,
    real_max,
    less,        // real, real -> int
    less_equal,
    floor,      // real -> int; fails if the result is no int64, as ceil and round do
    ceil,
    round,      // halves go to the even number
    real_of_bits,  // int -> real: the double with these bits
    bits_of_real,  // real -> int
    real_single,   // real -> real: rounded to 24 bits as a float is
    real_sqrt,     // real -> real; fails if the operand is negative
    units_per_chunk,  // see tiling.h: units, ns_per_unit (real), usual_chunk_ns (real), multiple
    conv_units,       // see ConvRequest, whose fields are the operands in their order
    conv_groups,
    planes_planes,    // see partition_planes(): planes, rows, ns (real), usual_chunk_ns (real)
    planes_rows,
    grid_batches,     // see GridRequest, whose fields are the operands in their order
    grid_blocks,
    grid_panels,
    winograd_tiles,   // see WinogradRequest, whose fields are the operands in their order, and WinogradPartition
    winograd_groups,
    winograd_input,
    winograd_product,
    winograd_total,
};

// BindingFailure says why a plan cannot be bound to sizes.
class BindingFailure : public std::runtime_error {
public:
    enum class Kind {
        overflow,  // an operation overflows
        division,  // an operation divides by 0
        range,     // an operation has a result or operand out of range
        guard,     // a guard does not hold
        requested, // a size that the caller wants, for example of an output, is negative
        step,      // a step has negative chunks or offsets, or a cost that is not a finite number >= 0
        buffer,    // a buffer has a negative size
        scratch,   // the size of the scratch is negative
        arena,     // the arena would be too large
    };
    // `number` is that of the operation, guard, requested size, step or buffer.
    BindingFailure(Kind failed, std::int64_t number_of, const std::string& text);
    Kind kind;
    std::int64_t number;
};

// Slot is a value: an int64 or the bits of a double.
using Slot = std::int64_t;

double to_real(Slot slot);

// SearchResults are what a search has found: the results of its operations in their order.
using SearchResults = std::array<std::int64_t, 5>;

// Binder is a list of operations. Slots are numbered: first the symbols, then the constants, then the results of the
// operations. Equal operations in succession that depend on the same symbols take least time: see in_runs() of
// plan/binder.py. It is immutable: any thread may use it at any time.
class Binder {
public:
    struct Operation {
        std::int32_t op;             // a BinderOp
        std::int32_t first_operand;  // index into `operands`; they end where those of the next operation begin
    };

    // `constants` are the bits of the constants; `operands` are slot numbers. Throws std::invalid_argument if an
    // operation is unknown, has a wrong number of operands, uses a slot that is not computed before it, or takes an
    // integer for a real or the other way round.
    Binder(std::int64_t symbols, std::vector<Slot> constants, const std::vector<Operation>& operations,
           std::vector<std::int32_t> operands);

    // require_integer() and require_real() throw std::invalid_argument, which begins with `where`, if `slot` is none or
    // holds the other kind. They decide the kind of a constant that no operation uses.
    void require_integer(const std::string& where, std::int64_t slot);
    void require_real(const std::string& where, std::int64_t slot);

    // evaluate() returns the values of all slots. Throws BindingFailure, and std::invalid_argument for a wrong number
    // of symbols.
    std::vector<Slot> evaluate(std::span<const std::int64_t> symbols) const;

    // update() changes slots that evaluate() returned to those of other values of the symbols. It computes only the
    // slots that depend on symbols whose values differ. Throws as evaluate() does; the slots must then not be used.
    void update(std::vector<Slot>& slots, std::span<const std::int64_t> symbols) const;

    // prefetch() starts loading what update() reads beside the slots.
    void prefetch() const { treadle::prefetch(operands_, runs_, searches_, requests_); }

    std::size_t symbols() const { return symbols_; }

private:
    enum class Kind : std::uint8_t { unknown, integer, real };

    // Run is equal operations in succession that depend on the same symbols. Their operands lie one after another.
    struct Run {
        BinderOp op;
        std::uint32_t first_row;
        std::uint32_t end_row;
        std::uint32_t first_operand;
        std::uint32_t first_search;  // of operations that search: index into `searches_`
        std::uint64_t depends_on;    // bits of symbols; kNoSymbol if there are none
    };
    // Request is where the operands of a search are.
    struct Request {
        std::size_t first_operand;
        std::size_t count;
    };

    void require(const std::string& where, std::int64_t slot, std::size_t count, Kind wanted);
    void add_operation(std::size_t row, BinderOp op, std::size_t first_operand, std::uint64_t depends_on);
    void require_symbols(std::span<const std::int64_t> symbols) const;
    // Computes the operations that depend on symbols whose bits are `changed`.
    void compute(std::vector<Slot>& slots, std::uint64_t changed) const;
    // Computes the operations of a run. `found` has what searches have found so far.
    void compute(const Run& run, std::vector<Slot>& slots, std::vector<std::optional<SearchResults>>& found) const;

    std::size_t symbols_;
    std::vector<Slot> constants_;
    std::vector<std::int32_t> operands_;
    std::vector<Run> runs_;
    std::vector<Kind> kinds_;  // of the slots
    // For each operation of a search, in their order, the number of the search: equal requests are searched once.
    std::vector<std::uint32_t> searches_;
    std::vector<Request> requests_;  // of each search
};

}  // namespace treadle
