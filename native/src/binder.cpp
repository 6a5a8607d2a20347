#include "treadle/binder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
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
    "iirri", "iiiriirr", "iiiriirr", "iiirr", "iiirr",           // units_per_chunk to planes_rows
    "iiiirrriirrrr", "iiiirrriirrrr", "iiiirrriirrrr",           // grid_batches to grid_panels
    "iiiiiiiiiiiirrrriiirrrri", "iiiiiiiiiiiirrrriiirrrri", "iiiiiiiiiiiirrrriiirrrri", "iiiiiiiiiiiirrrriiirrrri",
    "iiiiiiiiiiiirrrriiirrrri",  // winograd_tiles to winograd_total
};
static_assert(kSignatures.size() == index_of(BinderOp::winograd_total) + 1);

constexpr std::uint64_t kNoSymbol = std::uint64_t{1} << 63;
constexpr std::uint64_t kEverySymbol = ~std::uint64_t{0};

// Returns the bit of a symbol; those from the 63rd on share one.
constexpr std::uint64_t bit_of(std::size_t symbol) { return std::uint64_t{1} << std::min<std::size_t>(symbol, 62); }

constexpr BinderOp kFirstSearch = BinderOp::conv_units;  // those from here on are results of searches

std::size_t operands_of(BinderOp op) { return std::string_view(kSignatures[index_of(op)]).size() - 1; }

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

std::int64_t partition(std::int64_t units, double ns_per_unit, double usual_chunk_ns, std::int64_t multiple,
                       std::size_t row) {
    require_units(units, row);
    require_units(multiple, row);
    require_finite(ns_per_unit, row);
    require_finite(usual_chunk_ns, row);
    return units_per_chunk(units, ns_per_unit, usual_chunk_ns, multiple);
}

void require_axis(std::int64_t size, std::int64_t most, std::size_t row) {
    if (size < 1) fail(BindingFailure::Kind::range, row, "partitions a convolution without results");
    if (size > most) fail(BindingFailure::Kind::range, row, "partitions a convolution of too many results");
}

SearchResults search(const ConvRequest& request, std::size_t row) {
    require_axis(request.units, kMostUnits, row);
    require_axis(request.groups, kMostLines, row);
    if (static_cast<double>(request.units) * static_cast<double>(request.groups) > kMostTiles / 16) {
        fail(BindingFailure::Kind::range, row, "partitions a convolution of too many results");
    }
    require_finite(request.ns, row);
    require_finite(request.l3_shared_bytes_per_ns, row);
    require_finite(request.usual_chunk_ns, row);
    // A chunk of each group reads x, and at most twice kMaxChunks chunks of units read the weights.
    const double most = static_cast<double>(std::max(request.groups, 2 * kMaxChunks));
    const double bytes = static_cast<double>(std::max(request.weight_bytes, request.x_bytes));
    if (std::min(request.weight_bytes, request.x_bytes) < 0 || most * bytes > kMostTiles) {
        fail(BindingFailure::Kind::range, row, "partitions a convolution that moves more than 2**60 bytes");
    }
    const ConvPartition chunk = partition_conv(request);
    return {chunk.units, chunk.groups};
}

SearchResults search(std::int64_t planes, std::int64_t rows, double ns, double usual_chunk_ns, std::size_t row) {
    require_axis(planes, kMostLines, row);
    require_axis(rows, kMostLines, row);
    require_finite(ns, row);
    require_finite(usual_chunk_ns, row);
    const PlanePartition chunk = partition_planes(planes, rows, ns, usual_chunk_ns);
    return {chunk.planes, chunk.rows};
}

SearchResults search(const GridRequest& request, std::size_t row) {
    for (const std::int64_t units : {request.blocks, request.panels, request.batches}) require_units(units, row);
    for (const double number : {request.block_ns, request.a_bytes, request.b_bytes, request.share, request.l2_bytes_per_ns,
                                request.l3_bytes_per_ns, request.usual_chunk_ns}) {
        require_finite(number, row);
    }
    if (static_cast<double>(request.blocks) * static_cast<double>(request.panels) > kMostTiles) {
        fail(BindingFailure::Kind::range, row, "partitions more than 2**60 tiles");
    }
    const Grid grid = choose_grid(request);
    return {grid.batches, grid.blocks, grid.panels};
}

SearchResults search(const WinogradRequest& request, std::size_t row) {
    if (const char* fault = fault_of(request)) fail(BindingFailure::Kind::range, row, fault);
    const auto [tiles, groups, input, product, total] = partition_winograd(request);
    return {tiles, groups, input, product, total};
}

}  // namespace

double to_real(Slot slot) { return std::bit_cast<double>(slot); }

BindingFailure::BindingFailure(Kind failed, std::int64_t number_of, const std::string& text)
    : std::runtime_error(text), kind(failed), number(number_of) {}

Binder::Binder(std::int64_t symbols, std::vector<Slot> constants, const std::vector<Operation>& operations,
               std::vector<std::int32_t> operands)
    : symbols_(static_cast<std::size_t>(symbols)), constants_(std::move(constants)), operands_(std::move(operands)) {
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    if (symbols < 0 || symbols > most) {
        throw std::invalid_argument("symbols: wanted a number in 0..2**31, got " + std::to_string(symbols));
    }
    const std::size_t first = symbols_ + constants_.size();
    kinds_.assign(first + operations.size(), Kind::unknown);
    std::fill_n(kinds_.begin(), symbols_, Kind::integer);
    std::vector<std::uint64_t> bits(kinds_.size(), 0);
    for (std::size_t i = 0; i < symbols_; ++i) bits[i] = bit_of(i);
    for (std::size_t row = 0; row < operations.size(); ++row) {
        const auto [op, begin] = operations[row];
        const std::int64_t end = row + 1 < operations.size() ? operations[row + 1].first_operand
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
        kinds_[first + row] = signature[0] == 'i' ? Kind::integer : Kind::real;
        add_operation(row, static_cast<BinderOp>(op), static_cast<std::size_t>(begin),
                      bits[first + row] != 0 ? bits[first + row] : kNoSymbol);
    }
}

void Binder::add_operation(std::size_t row, BinderOp op, std::size_t first_operand, std::uint64_t depends_on) {
    if (runs_.empty() || runs_.back().op != op || runs_.back().depends_on != depends_on) {
        const auto number = static_cast<std::uint32_t>(row);
        runs_.push_back({op, number, number, static_cast<std::uint32_t>(first_operand),
                         static_cast<std::uint32_t>(searches_.size()), depends_on});
    }
    ++runs_.back().end_row;
    if (op < kFirstSearch) return;
    const auto operands = [this](const Request& of) { return std::span(operands_).subspan(of.first_operand, of.count); };
    const Request request{first_operand, operands_of(op)};
    // Searches of different kinds have different numbers of operands.
    const auto same = std::ranges::find_if(requests_, [&](const Request& other) {
        return std::ranges::equal(operands(other), operands(request));
    });
    searches_.push_back(static_cast<std::uint32_t>(same - requests_.begin()));
    if (same == requests_.end()) requests_.push_back(request);
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
    std::vector<std::optional<SearchResults>> found(requests_.size());
    for (const Run& run : runs_) {
        if ((run.depends_on & changed) != 0) compute(run, slots, found);
    }
}

void Binder::compute(const Run& run, std::vector<Slot>& slots, std::vector<std::optional<SearchResults>>& found) const {
    const std::size_t count = operands_of(run.op);
    const std::int32_t* operand = operands_.data() + run.first_operand;
    Slot* result = slots.data() + symbols_ + constants_.size() + run.first_row;
    std::size_t row = run.first_row;
    const auto integer = [&](int k) { return slots[static_cast<std::size_t>(operand[k])]; };
    const auto real = [&](int k) { return to_real(integer(k)); };
    const auto set_real = [&](double number) { *result = std::bit_cast<Slot>(number); };
    const auto each = [&](const auto& compute_one) {
        for (; row < run.end_row; ++row, ++result, operand += count) compute_one();
    };
    // Searches once for all operations with the same operands. `first`: the operation of the first result.
    const auto each_found = [&](BinderOp first, const auto& search_one) {
        const std::uint32_t* number = searches_.data() + run.first_search;
        each([&] {
            std::optional<SearchResults>& results = found[*number++];
            if (!results) results = search_one();
            *result = (*results)[index_of(run.op) - index_of(first)];
        });
    };
    switch (run.op) {
        case BinderOp::add: each([&] { require_fit(__builtin_add_overflow(integer(0), integer(1), result), row); }); break;
        case BinderOp::sub: each([&] { require_fit(__builtin_sub_overflow(integer(0), integer(1), result), row); }); break;
        case BinderOp::mul: each([&] { require_fit(__builtin_mul_overflow(integer(0), integer(1), result), row); }); break;
        case BinderOp::floordiv: each([&] { *result = floor_division(integer(0), integer(1), row); }); break;
        case BinderOp::min: each([&] { *result = std::min(integer(0), integer(1)); }); break;
        case BinderOp::max: each([&] { *result = std::max(integer(0), integer(1)); }); break;
        case BinderOp::is_zero:
        case BinderOp::logical_not: each([&] { *result = integer(0) == 0; }); break;
        case BinderOp::is_negative: each([&] { *result = integer(0) < 0; }); break;
        case BinderOp::to_real: each([&] { set_real(static_cast<double>(integer(0))); }); break;
        case BinderOp::real_add: each([&] { set_real(real(0) + real(1)); }); break;
        case BinderOp::real_sub: each([&] { set_real(real(0) - real(1)); }); break;
        case BinderOp::real_mul: each([&] { set_real(real(0) * real(1)); }); break;
        case BinderOp::real_div:
            each([&] {
                if (real(1) == 0) fail(BindingFailure::Kind::division, row, "divides by 0");
                set_real(real(0) / real(1));
            });
            break;
        case BinderOp::real_min: each([&] { set_real(real(1) < real(0) ? real(1) : real(0)); }); break;
        case BinderOp::real_max: each([&] { set_real(real(1) > real(0) ? real(1) : real(0)); }); break;
        case BinderOp::less: each([&] { *result = real(0) < real(1); }); break;
        case BinderOp::less_equal: each([&] { *result = real(0) <= real(1); }); break;
        case BinderOp::floor: each([&] { *result = to_integer(std::floor(real(0)), row); }); break;
        case BinderOp::ceil: each([&] { *result = to_integer(std::ceil(real(0)), row); }); break;
        case BinderOp::round: each([&] { *result = to_integer(std::nearbyint(real(0)), row); }); break;
        case BinderOp::real_of_bits:
        case BinderOp::bits_of_real: each([&] { *result = integer(0); }); break;
        case BinderOp::real_single: each([&] { set_real(static_cast<float>(real(0))); }); break;
        case BinderOp::real_sqrt:
            each([&] {
                if (real(0) < 0) fail(BindingFailure::Kind::range, row, "has the square root of a negative number");
                set_real(std::sqrt(real(0)));
            });
            break;
        case BinderOp::units_per_chunk:
            each([&] { *result = partition(integer(0), real(1), real(2), integer(3), row); });
            break;
        case BinderOp::conv_units:
        case BinderOp::conv_groups:
            each_found(BinderOp::conv_units, [&] {
                return search(ConvRequest{integer(0), integer(1), real(2), integer(3), integer(4), real(5), real(6)}, row);
            });
            break;
        case BinderOp::planes_planes:
        case BinderOp::planes_rows:
            each_found(BinderOp::planes_planes, [&] { return search(integer(0), integer(1), real(2), real(3), row); });
            break;
        case BinderOp::grid_batches:
        case BinderOp::grid_blocks:
        case BinderOp::grid_panels:
            each_found(BinderOp::grid_batches, [&] {
                return search(GridRequest{integer(0), integer(1), integer(2), real(3), real(4), real(5), integer(6),
                                          integer(7) != 0, real(8), real(9), real(10), real(11)},
                              row);
            });
            break;
        case BinderOp::winograd_tiles:
        case BinderOp::winograd_groups:
        case BinderOp::winograd_input:
        case BinderOp::winograd_product:
        case BinderOp::winograd_total:
            each_found(BinderOp::winograd_tiles, [&] {
                return search(
                    WinogradRequest{integer(0), integer(1), integer(2), integer(3), integer(4), integer(5),
                                    integer(6), integer(7), integer(8), integer(9), integer(10) != 0, real(11),
                                    real(12), real(13), real(14), integer(15), integer(16), integer(17), real(18),
                                    real(19), real(20), real(21), integer(22)},
                    row);
            });
            break;
    }
}

}  // namespace treadle
