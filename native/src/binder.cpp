#include "treadle/binder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "treadle/winograd.h"

namespace treadle {

namespace {

constexpr std::int64_t kMostUnits = std::int64_t{1} << 40;  // see tiling.h
constexpr std::int64_t kMostLines = std::int64_t{1} << 24;  // of an axis whose every partition is tried
constexpr double kMostTiles = 0x1p60;                       // of a grid, so that their number fits an int64

constexpr std::size_t index_of(BinderOp op) { return static_cast<std::size_t>(op); }

// The kinds of an operation's operands and result: 'i' for integers, 'r' for reals; first the result.
constexpr std::array<const char*, 38> kSignatures{
    "iii", "iii", "iii", "iii", "iii", "iii", "ii", "ii", "ii",  // add to logical_not
    "ri",  "rrr", "rrr", "rrr", "rrr", "rrr", "rrr",             // to_real to real_max
    "irr", "irr", "ir",  "ir",  "ir",  "ri",  "ir",  "rr",  "rr",  // less to real_sqrt
    "iiri", "iiiriir", "iiiriir", "iiir", "iiir",                // units_per_chunk to planes_rows
    "iiiirrriirrr", "iiiirrriirrr", "iiiirrriirrr",              // grid_batches to grid_panels
    "iiiiiiiiiiiirrrriiirrri", "iiiiiiiiiiiirrrriiirrri", "iiiiiiiiiiiirrrriiirrri", "iiiiiiiiiiiirrrriiirrri",
    "iiiiiiiiiiiirrrriiirrri",  // winograd_tiles to winograd_total
};
static_assert(kSignatures.size() == index_of(BinderOp::winograd_total) + 1);

constexpr std::uint64_t kNoSymbol = std::uint64_t{1} << 63;
constexpr std::uint64_t kEverySymbol = ~std::uint64_t{0};

// Returns the bit of a symbol; those from the 63rd on share one.
constexpr std::uint64_t bit_of(std::size_t symbol) { return std::uint64_t{1} << std::min<std::size_t>(symbol, 62); }

constexpr BinderOp kFirstSearch = BinderOp::conv_units;  // those from here on are results of searches

// Found is what a search has found: the results of its operations in their order.
using Found = std::array<std::int64_t, 5>;

std::string of_operation(std::size_t row) { return "operation " + std::to_string(row); }

[[noreturn]] void fail(BindingFailure::Kind kind, std::size_t row, const char* fault) {
    throw BindingFailure(kind, static_cast<std::int64_t>(row), of_operation(row) + ' ' + fault);
}

void require_fit(bool overflows, std::size_t row) {
    if (overflows) fail(BindingFailure::Kind::overflow, row, "overflows");
}

std::int64_t floor_division(std::int64_t a, std::int64_t b, std::size_t row) {
    if (b == 0) fail(BindingFailure::Kind::division, row, "divides by 0");
    if (b == -1) {
        std::int64_t result = 0;
        require_fit(__builtin_sub_overflow(std::int64_t{0}, a, &result), row);
        return result;
    }
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

std::int64_t to_integer(double number, std::size_t row) {
    if (!(number >= -0x1p63 && number < 0x1p63)) {
        fail(BindingFailure::Kind::range, row, "rounds a number that is not in the range of int64");
    }
    return static_cast<std::int64_t>(number);
}

void require_units(std::int64_t units, std::size_t row) {
    if (units > kMostUnits) fail(BindingFailure::Kind::range, row, "partitions more than 2**40 units");
}

void require_finite(double number, std::size_t row) {
    if (!std::isfinite(number)) fail(BindingFailure::Kind::range, row, "partitions work whose cost is not finite");
}

std::int64_t partition(std::int64_t units, double ns_per_unit, std::int64_t multiple, std::size_t row) {
    require_units(units, row);
    require_units(multiple, row);
    require_finite(ns_per_unit, row);
    return units_per_chunk(units, ns_per_unit, multiple);
}

void require_axis(std::int64_t size, std::int64_t most, std::size_t row) {
    if (size < 1) fail(BindingFailure::Kind::range, row, "partitions a convolution without results");
    if (size > most) fail(BindingFailure::Kind::range, row, "partitions a convolution of too many results");
}

Found search(const ConvRequest& request, std::size_t row) {
    require_axis(request.units, kMostUnits, row);
    require_axis(request.groups, kMostLines, row);
    if (static_cast<double>(request.units) * static_cast<double>(request.groups) > kMostTiles / 16) {
        fail(BindingFailure::Kind::range, row, "partitions a convolution of too many results");
    }
    require_finite(request.ns, row);
    require_finite(request.l3_shared_bytes_per_ns, row);
    // A chunk of each group reads x, and at most twice kMaxChunks chunks of units read the weights.
    const double most = static_cast<double>(std::max(request.groups, 2 * kMaxChunks));
    const double bytes = static_cast<double>(std::max(request.weight_bytes, request.x_bytes));
    if (std::min(request.weight_bytes, request.x_bytes) < 0 || most * bytes > kMostTiles) {
        fail(BindingFailure::Kind::range, row, "partitions a convolution that moves more than 2**60 bytes");
    }
    const ConvPartition chunk = partition_conv(request);
    return {chunk.units, chunk.groups};
}

Found search(std::int64_t planes, std::int64_t rows, double ns, std::size_t row) {
    require_axis(planes, kMostLines, row);
    require_axis(rows, kMostLines, row);
    require_finite(ns, row);
    const PlanePartition chunk = partition_planes(planes, rows, ns);
    return {chunk.planes, chunk.rows};
}

Found search(const GridRequest& request, std::size_t row) {
    for (const std::int64_t units : {request.blocks, request.panels, request.batches}) require_units(units, row);
    for (const double number : {request.block_ns, request.a_bytes, request.b_bytes, request.share, request.l2_bytes_per_ns,
                                request.l3_bytes_per_ns}) {
        require_finite(number, row);
    }
    if (static_cast<double>(request.blocks) * static_cast<double>(request.panels) > kMostTiles) {
        fail(BindingFailure::Kind::range, row, "partitions more than 2**60 tiles");
    }
    const Grid grid = choose_grid(request);
    return {grid.batches, grid.blocks, grid.panels};
}

Found search(const WinogradRequest& request, std::size_t row) {
    if (const char* fault = fault_of(request)) fail(BindingFailure::Kind::range, row, fault);
    const auto [tiles, groups, input, product, total] = partition_winograd(request);
    return {tiles, groups, input, product, total};
}

}  // namespace

double to_real(Slot slot) { return std::bit_cast<double>(slot); }

BindingFailure::BindingFailure(Kind failed, std::int64_t number_of, const std::string& text)
    : std::runtime_error(text), kind(failed), number(number_of) {}

Binder::Binder(std::int64_t symbols, std::vector<Slot> constants, std::vector<Operation> operations,
               std::vector<std::int32_t> operands)
    : symbols_(static_cast<std::size_t>(symbols)),
      constants_(std::move(constants)),
      operations_(std::move(operations)),
      operands_(std::move(operands)) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (symbols < 0 || symbols > most) {
        throw std::invalid_argument("symbols: wanted a number in 0..2**31, got " + std::to_string(symbols));
    }
    const std::size_t first = symbols_ + constants_.size();
    kinds_.assign(first + operations_.size(), Kind::unknown);
    std::fill_n(kinds_.begin(), symbols_, Kind::integer);
    std::vector<std::uint64_t> bits(kinds_.size(), 0);
    for (std::size_t i = 0; i < symbols_; ++i) bits[i] = bit_of(i);
    depends_on_.reserve(operations_.size());
    searches_.assign(operations_.size(), -1);
    for (std::size_t row = 0; row < operations_.size(); ++row) {
        const auto [op, begin] = operations_[row];
        const std::int64_t end = row + 1 < operations_.size() ? operations_[row + 1].first_operand
                                                              : static_cast<std::int64_t>(operands_.size());
        if (op < 0 || static_cast<std::size_t>(op) >= kSignatures.size()) {
            throw std::invalid_argument(of_operation(row) + ": wanted a number in 0.." +
                                        std::to_string(kSignatures.size()) + " (exclusive), got " +
                                        std::to_string(op));
        }
        const std::string signature = kSignatures[static_cast<std::size_t>(op)];
        const auto wanted = static_cast<std::int64_t>(signature.size()) - 1;
        if (begin < 0 || end > static_cast<std::int64_t>(operands_.size()) || end - begin != wanted) {
            throw std::invalid_argument(of_operation(row) + ": wanted " + std::to_string(wanted) + " of " +
                                        std::to_string(operands_.size()) + " operands, got those from " +
                                        std::to_string(begin) + " to " + std::to_string(end));
        }
        for (std::int64_t k = 0; k < wanted; ++k) {
            const std::int32_t operand = operands_[static_cast<std::size_t>(begin + k)];
            require(of_operation(row), operand, first + row,
                    signature[static_cast<std::size_t>(k + 1)] == 'i' ? Kind::integer : Kind::real);
            bits[first + row] |= bits[static_cast<std::size_t>(operand)];
        }
        depends_on_.push_back(bits[first + row] != 0 ? bits[first + row] : kNoSymbol);
        kinds_[first + row] = signature[0] == 'i' ? Kind::integer : Kind::real;
        if (static_cast<BinderOp>(op) >= kFirstSearch) add_search(row);
    }
}

void Binder::add_search(std::size_t row) {
    const auto request = [this](std::size_t of) {
        const auto [op, begin] = operations_[of];
        const std::size_t count = std::string_view(kSignatures[static_cast<std::size_t>(op)]).size() - 1;
        return std::span(operands_).subspan(static_cast<std::size_t>(begin), count);
    };
    // Searches of different kinds have different numbers of operands.
    const auto same = std::ranges::find_if(search_rows_, [&](std::size_t other) {
        return std::ranges::equal(request(other), request(row));
    });
    searches_[row] = static_cast<std::int32_t>(same - search_rows_.begin());
    if (same == search_rows_.end()) search_rows_.push_back(row);
}

void Binder::require(const std::string& where, std::int64_t slot, std::size_t count, Kind wanted) {
    if (slot < 0 || static_cast<std::uint64_t>(slot) >= count) {
        throw std::invalid_argument(where + ": slot must be in 0.." + std::to_string(count) + " (exclusive), got " +
                                    std::to_string(slot));
    }
    Kind& kind = kinds_[static_cast<std::size_t>(slot)];
    if (kind == Kind::unknown) kind = wanted;
    if (kind != wanted) {
        throw std::invalid_argument(where + ": wanted " + (wanted == Kind::integer ? "an integer" : "a real number") +
                                    " in slot " + std::to_string(slot) + ", which holds the other kind");
    }
}

void Binder::require_integer(const std::string& where, std::int64_t slot) {
    require(where, slot, kinds_.size(), Kind::integer);
}

void Binder::require_real(const std::string& where, std::int64_t slot) {
    require(where, slot, kinds_.size(), Kind::real);
}

void Binder::require_symbols(std::span<const std::int64_t> symbols) const {
    if (symbols.size() == symbols_) return;
    throw std::invalid_argument("symbols: wanted " + std::to_string(symbols_) + " values, got " +
                                std::to_string(symbols.size()));
}

std::vector<Slot> Binder::evaluate(std::span<const std::int64_t> symbols) const {
    require_symbols(symbols);
    std::vector<Slot> slots(kinds_.size());
    std::ranges::copy(symbols, slots.begin());
    std::ranges::copy(constants_, slots.begin() + static_cast<std::ptrdiff_t>(symbols_));
    compute(slots, kEverySymbol);
    return slots;
}

void Binder::update(std::vector<Slot>& slots, std::span<const std::int64_t> symbols) const {
    require_symbols(symbols);
    std::uint64_t changed = 0;
    for (std::size_t i = 0; i < symbols.size(); ++i) {
        if (slots[i] != symbols[i]) changed |= bit_of(i);
        slots[i] = symbols[i];
    }
    compute(slots, changed);
}

void Binder::compute(std::vector<Slot>& slots, std::uint64_t changed) const {
    Slot* result = slots.data() + symbols_ + constants_.size();
    std::vector<std::optional<Found>> found(search_rows_.size());
    for (std::size_t row = 0; row < operations_.size(); ++row, ++result) {
        if ((depends_on_[row] & changed) == 0) continue;
        const std::int32_t* const operand = operands_.data() + operations_[row].first_operand;
        const auto integer = [&](int k) { return slots[static_cast<std::size_t>(operand[k])]; };
        const auto real = [&](int k) { return to_real(integer(k)); };
        const auto set_real = [&](double number) { *result = std::bit_cast<Slot>(number); };
        const auto op = static_cast<BinderOp>(operations_[row].op);
        // Searches once for all operations with the same operands. `first`: the operation of the first result.
        const auto set_found = [&](BinderOp first, const auto& searched) {
            std::optional<Found>& results = found[static_cast<std::size_t>(searches_[row])];
            if (!results) results = searched();
            *result = (*results)[index_of(op) - index_of(first)];
        };
        switch (op) {
            case BinderOp::add: require_fit(__builtin_add_overflow(integer(0), integer(1), result), row); break;
            case BinderOp::sub: require_fit(__builtin_sub_overflow(integer(0), integer(1), result), row); break;
            case BinderOp::mul: require_fit(__builtin_mul_overflow(integer(0), integer(1), result), row); break;
            case BinderOp::floordiv: *result = floor_division(integer(0), integer(1), row); break;
            case BinderOp::min: *result = std::min(integer(0), integer(1)); break;
            case BinderOp::max: *result = std::max(integer(0), integer(1)); break;
            case BinderOp::is_zero:
            case BinderOp::logical_not: *result = integer(0) == 0; break;
            case BinderOp::is_negative: *result = integer(0) < 0; break;
            case BinderOp::to_real: set_real(static_cast<double>(integer(0))); break;
            case BinderOp::real_add: set_real(real(0) + real(1)); break;
            case BinderOp::real_sub: set_real(real(0) - real(1)); break;
            case BinderOp::real_mul: set_real(real(0) * real(1)); break;
            case BinderOp::real_div:
                if (real(1) == 0) fail(BindingFailure::Kind::division, row, "divides by 0");
                set_real(real(0) / real(1));
                break;
            case BinderOp::real_min: set_real(real(1) < real(0) ? real(1) : real(0)); break;
            case BinderOp::real_max: set_real(real(1) > real(0) ? real(1) : real(0)); break;
            case BinderOp::less: *result = real(0) < real(1); break;
            case BinderOp::less_equal: *result = real(0) <= real(1); break;
            case BinderOp::floor: *result = to_integer(std::floor(real(0)), row); break;
            case BinderOp::ceil: *result = to_integer(std::ceil(real(0)), row); break;
            case BinderOp::round: *result = to_integer(std::nearbyint(real(0)), row); break;
            case BinderOp::real_of_bits:
            case BinderOp::bits_of_real: *result = integer(0); break;
            case BinderOp::real_single: set_real(static_cast<float>(real(0))); break;
            case BinderOp::real_sqrt:
                if (real(0) < 0) fail(BindingFailure::Kind::range, row, "has the square root of a negative number");
                set_real(std::sqrt(real(0)));
                break;
            case BinderOp::units_per_chunk: *result = partition(integer(0), real(1), integer(2), row); break;
            case BinderOp::conv_units:
            case BinderOp::conv_groups:
                set_found(BinderOp::conv_units, [&] {
                    return search(ConvRequest{integer(0), integer(1), real(2), integer(3), integer(4), real(5)}, row);
                });
                break;
            case BinderOp::planes_planes:
            case BinderOp::planes_rows:
                set_found(BinderOp::planes_planes, [&] { return search(integer(0), integer(1), real(2), row); });
                break;
            case BinderOp::grid_batches:
            case BinderOp::grid_blocks:
            case BinderOp::grid_panels:
                set_found(BinderOp::grid_batches, [&] {
                    return search(GridRequest{integer(0), integer(1), integer(2), real(3), real(4), real(5),
                                              integer(6), integer(7) != 0, real(8), real(9), real(10)},
                                  row);
                });
                break;
            case BinderOp::winograd_tiles:
            case BinderOp::winograd_groups:
            case BinderOp::winograd_input:
            case BinderOp::winograd_product:
            case BinderOp::winograd_total:
                set_found(BinderOp::winograd_tiles, [&] {
                    return search(
                        WinogradRequest{integer(0), integer(1), integer(2), integer(3), integer(4), integer(5),
                                        integer(6), integer(7), integer(8), integer(9), integer(10) != 0, real(11),
                                        real(12), real(13), real(14), integer(15), integer(16), integer(17), real(18),
                                        real(19), real(20), integer(21)},
                        row);
                });
                break;
        }
    }
}

}  // namespace treadle
