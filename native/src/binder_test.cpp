#include "treadle/binder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <limits>

#include "treadle/check.h"
#include "treadle/winograd.h"

namespace treadle::testing {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();

Slot bits(double number) { return std::bit_cast<Slot>(number); }

// Listing collects operations whose operands are given by their slots.
struct Listing {
    std::int64_t symbols = 0;
    std::vector<Slot> constants;
    std::vector<Binder::Operation> operations;
    std::vector<std::int32_t> operands;

    std::int64_t add(BinderOp op, std::initializer_list<std::int32_t> of) {
        operations.push_back({static_cast<std::int32_t>(op), static_cast<std::int32_t>(operands.size())});
        operands.insert(operands.end(), of);
        return symbols + static_cast<std::int64_t>(constants.size() + operations.size()) - 1;
    }
    Binder build() const { return {symbols, constants, operations, operands}; }
};

// Returns the result of one operation on constants.
Slot compute(BinderOp op, std::vector<Slot> operands) {
    Listing listing;
    listing.constants = std::move(operands);
    listing.operations = {{static_cast<std::int32_t>(op), 0}};
    for (std::size_t i = 0; i < listing.constants.size(); ++i) {
        listing.operands.push_back(static_cast<std::int32_t>(i));
    }
    return listing.build().evaluate({}).back();
}

double compute_real(BinderOp op, double a, double b) { return to_real(compute(op, {bits(a), bits(b)})); }

void check_failure(BindingFailure::Kind kind, BinderOp op, std::vector<Slot> operands) {
    try {
        compute(op, std::move(operands));
    } catch (const BindingFailure& failure) {
        CHECK_EQUAL(static_cast<int>(kind), static_cast<int>(failure.kind));
        CHECK_EQUAL(0, failure.number);
        return;
    }
    CHECK(false && "nothing was thrown");
}

void check_rejected(const Listing& listing, const std::string& wanted) {
    const std::string came = CHECK_THROWS(std::invalid_argument, listing.build());
    if (came.find(wanted) == std::string::npos) check::fail(__FILE__, __LINE__, "got '" + came + "'");
}

}  // namespace

TREADLE_TEST(integers_are_computed_as_python_does) {
    CHECK_EQUAL(5, compute(BinderOp::add, {2, 3}));
    CHECK_EQUAL(-1, compute(BinderOp::sub, {2, 3}));
    CHECK_EQUAL(-6, compute(BinderOp::mul, {2, -3}));
    CHECK_EQUAL(3, compute(BinderOp::floordiv, {7, 2}));
    CHECK_EQUAL(-4, compute(BinderOp::floordiv, {-7, 2}));
    CHECK_EQUAL(-4, compute(BinderOp::floordiv, {7, -2}));
    CHECK_EQUAL(3, compute(BinderOp::floordiv, {-7, -2}));
    CHECK_EQUAL(-kMost, compute(BinderOp::floordiv, {kMost, -1}));
    CHECK_EQUAL(-3, compute(BinderOp::min, {2, -3}));
    CHECK_EQUAL(2, compute(BinderOp::max, {2, -3}));
    CHECK_EQUAL(1, compute(BinderOp::is_zero, {0}));
    CHECK_EQUAL(0, compute(BinderOp::is_zero, {-1}));
    CHECK_EQUAL(1, compute(BinderOp::is_negative, {-1}));
    CHECK_EQUAL(0, compute(BinderOp::is_negative, {0}));
    CHECK_EQUAL(1, compute(BinderOp::logical_not, {0}));
    CHECK_EQUAL(0, compute(BinderOp::logical_not, {1}));
}

TREADLE_TEST(reals_are_computed_as_python_does) {
    CHECK_EQUAL(3.0, to_real(compute(BinderOp::to_real, {3})));
    CHECK_EQUAL(-0.3, to_real(compute(BinderOp::real_of_bits, {bits(-0.3)})));
    CHECK_EQUAL(bits(-0.3), compute(BinderOp::bits_of_real, {bits(-0.3)}));
    CHECK_EQUAL(0x1p24, to_real(compute(BinderOp::real_single, {bits(0x1p24 + 1)})));
    CHECK_EQUAL(0x1p24 + 4, to_real(compute(BinderOp::real_single, {bits(0x1p24 + 3)})));
    CHECK_EQUAL(1.5, to_real(compute(BinderOp::real_sqrt, {bits(2.25)})));
    CHECK_EQUAL(0.75, compute_real(BinderOp::real_add, 0.5, 0.25));
    CHECK_EQUAL(0.25, compute_real(BinderOp::real_sub, 0.5, 0.25));
    CHECK_EQUAL(0.125, compute_real(BinderOp::real_mul, 0.5, 0.25));
    CHECK_EQUAL(2.0, compute_real(BinderOp::real_div, 0.5, 0.25));
    CHECK_EQUAL(0.25, compute_real(BinderOp::real_min, 0.5, 0.25));
    CHECK_EQUAL(0.5, compute_real(BinderOp::real_max, 0.5, 0.25));
    CHECK_EQUAL(1, compute(BinderOp::less, {bits(0.25), bits(0.5)}));
    CHECK_EQUAL(0, compute(BinderOp::less, {bits(0.5), bits(0.5)}));
    CHECK_EQUAL(1, compute(BinderOp::less_equal, {bits(0.5), bits(0.5)}));
    CHECK_EQUAL(-2, compute(BinderOp::floor, {bits(-1.5)}));
    CHECK_EQUAL(-1, compute(BinderOp::ceil, {bits(-1.5)}));
    CHECK_EQUAL(2, compute(BinderOp::round, {bits(1.5)}));
    CHECK_EQUAL(2, compute(BinderOp::round, {bits(2.5)}));
    CHECK_EQUAL(kLeast, compute(BinderOp::floor, {bits(-0x1p63)}));
}

TREADLE_TEST(a_result_out_of_range_is_a_failure) {
    using Kind = BindingFailure::Kind;
    check_failure(Kind::overflow, BinderOp::add, {kMost, 1});
    check_failure(Kind::overflow, BinderOp::sub, {kLeast, 1});
    check_failure(Kind::overflow, BinderOp::mul, {kMost, 2});
    check_failure(Kind::overflow, BinderOp::floordiv, {kLeast, -1});
    check_failure(Kind::division, BinderOp::floordiv, {1, 0});
    check_failure(Kind::division, BinderOp::real_div, {bits(1.0), bits(0.0)});
    check_failure(Kind::range, BinderOp::floor, {bits(0x1p63)});
    check_failure(Kind::range, BinderOp::ceil, {bits(-0x1p64)});
    check_failure(Kind::range, BinderOp::round, {bits(std::numeric_limits<double>::quiet_NaN())});
    check_failure(Kind::range, BinderOp::units_per_chunk, {kMost, bits(1.0), bits(1.0), 1});
    check_failure(Kind::range, BinderOp::units_per_chunk, {4, bits(1.0), bits(1.0), kMost});
    constexpr double infinity = std::numeric_limits<double>::infinity();
    check_failure(Kind::range, BinderOp::units_per_chunk, {4, bits(infinity), bits(1.0), 1});
    check_failure(Kind::range, BinderOp::units_per_chunk, {4, bits(1.0), bits(infinity), 1});
    const std::int64_t large = std::int64_t{1} << 40;
    check_failure(Kind::range, BinderOp::grid_blocks,
                  {large, large, 1, bits(1.0), bits(1.0), bits(1.0), 1 << 20, 0, bits(1.0), bits(40.0), bits(32.0), bits(2e4)});
}

TREADLE_TEST(slots_are_symbols_then_constants_then_results) {
    Listing listing;
    listing.symbols = 2;
    listing.constants = {100};
    CHECK_EQUAL(3, listing.add(BinderOp::mul, {0, 1}));
    CHECK_EQUAL(4, listing.add(BinderOp::add, {3, 2}));
    const std::int64_t symbols[] = {6, 7};
    const std::vector<Slot> wanted{6, 7, 100, 42, 142};
    CHECK(listing.build().evaluate(symbols) == wanted);
    const auto binder = listing.build();
    CHECK_THROWS(std::invalid_argument, binder.evaluate({}));
}

TREADLE_TEST(searches_give_what_lowering_gets) {
    Listing listing;
    listing.symbols = 2;
    listing.constants = {1, bits(9e3), bits(4e5), bits(3e5), 1 << 20, bits(1.0), 3, bits(40.0), bits(32.0),
                         bits(2e4)};
    for (const std::int32_t blocks : {0, 1, 0}) {
        for (const auto op : {BinderOp::grid_batches, BinderOp::grid_blocks, BinderOp::grid_panels}) {
            listing.add(op, {blocks, 1, 8, 3, 4, 5, 6, 2, 7, 9, 10, 11});
        }
    }
    listing.add(BinderOp::units_per_chunk, {0, 3, 11, 8});
    const std::int64_t symbols[] = {40, 50};
    const auto slots = listing.build().evaluate(symbols);
    std::size_t at = 12;
    for (const std::int64_t blocks : {40, 50, 40}) {
        const Grid wanted = choose_grid({blocks, 50, 3, 9e3, 4e5, 3e5, 1 << 20, true, 1.0, 40.0, 32.0, 2e4});
        CHECK_EQUAL(wanted.batches, slots[at++]);
        CHECK_EQUAL(wanted.blocks, slots[at++]);
        CHECK_EQUAL(wanted.panels, slots[at++]);
    }
    CHECK_EQUAL(units_per_chunk(40, 9e3, 2e4, 3), slots[at]);
}

TREADLE_TEST(partitions_of_convolutions_are_what_lowering_gets) {
    Listing listing;
    listing.symbols = 2;
    listing.constants = {bits(7e5), 1 << 20, 1 << 18, bits(16.0), bits(2e4)};
    for (const auto op : {BinderOp::conv_units, BinderOp::conv_groups}) listing.add(op, {0, 1, 2, 3, 4, 5, 6});
    for (const auto op : {BinderOp::planes_planes, BinderOp::planes_rows}) listing.add(op, {0, 1, 2, 6});
    const auto binder = listing.build();
    const std::int64_t symbols[] = {45, 14};
    const auto slots = binder.evaluate(symbols);
    const ConvPartition conv = partition_conv({45, 14, 7e5, 1 << 20, 1 << 18, 16.0, 2e4});
    const PlanePartition planes = partition_planes(45, 14, 7e5, 2e4);
    const std::vector<Slot> wanted{conv.units, conv.groups, planes.planes, planes.rows};
    CHECK(std::equal(wanted.begin(), wanted.end(), slots.begin() + 7));
    for (const std::int64_t impossible : {std::int64_t{0}, std::int64_t{-4}, std::int64_t{1} << 40}) {
        const std::int64_t sizes[] = {45, impossible};
        CHECK_THROWS(BindingFailure, binder.evaluate(sizes));
    }
}

TREADLE_TEST(partitions_of_tiles_are_what_lowering_gets) {
    Listing listing;
    listing.symbols = 1;
    listing.constants = {4, 6, 2, 50, 64, 8, 36, 1, 0, bits(120.5), bits(60.25), bits(0.0), bits(0.3), 1 << 20, 32, 1 << 19,
                         bits(0.09), bits(0.03), bits(3000.0), bits(6e4), 8};
    for (const auto op : {BinderOp::winograd_tiles, BinderOp::winograd_groups, BinderOp::winograd_input,
                          BinderOp::winograd_product, BinderOp::winograd_total}) {
        listing.add(op, {0, 1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21});
    }
    const auto binder = listing.build();
    for (const std::int64_t tiles : {1, 49, 3000}) {
        const WinogradPartition found = partition_winograd(
            {tiles, 4, 6, 2, 50, 64, 8, 8, 36, 1, false, 120.5, 60.25, 0.0, 0.3, 1 << 20, 32, 1 << 19,
             0.09, 0.03, 3000.0, 6e4, 8});
        const std::int64_t symbols[] = {tiles};
        const auto slots = binder.evaluate(symbols);
        const std::vector<Slot> wanted{found.tiles, found.groups, found.input, found.product, found.total};
        CHECK(std::equal(wanted.begin(), wanted.end(), slots.end() - 5));
    }
    const std::int64_t none[] = {0};
    CHECK_THROWS(BindingFailure, binder.evaluate(none));
}

TREADLE_TEST(faulty_operations_are_refused) {
    Listing good;
    good.symbols = 1;
    good.constants = {bits(1.0)};
    good.add(BinderOp::add, {0, 0});
    Listing bad = good;
    bad.operations[0].op = 1000;
    check_rejected(bad, "(exclusive), got 1000");
    bad.operations[0].op = -1;
    check_rejected(bad, "operation 0: wanted a number in 0..");
    bad = good;
    bad.operands.push_back(0);
    check_rejected(bad, "operation 0: wanted 2 of 3 operands, got those from 0 to 3");
    bad = good;
    bad.operations[0].first_operand = -1;
    check_rejected(bad, "got those from -1 to 2");
    bad = good;
    bad.operations.push_back({0, 1 << 30});
    check_rejected(bad, "operation 0: wanted 2 of 2 operands");
    bad = good;
    bad.operands[1] = 2;
    check_rejected(bad, "operation 0: slot must be in 0..2 (exclusive), got 2");
    bad.operands[1] = -5;
    check_rejected(bad, "operation 0: slot must be in 0..2 (exclusive), got -5");
    bad = good;
    bad.add(BinderOp::real_add, {1, 2});
    check_rejected(bad, "operation 1: wanted a real number in slot 2, which holds the other kind");
    bad = good;
    bad.add(BinderOp::real_add, {1, 1});
    bad.add(BinderOp::add, {1, 0});
    check_rejected(bad, "operation 2: wanted an integer in slot 1");
    bad = good;
    bad.symbols = -1;
    check_rejected(bad, "symbols: wanted a number in 0..2**31, got -1");
}

TREADLE_TEST(updated_slots_are_those_of_an_evaluation) {
    Listing listing;
    listing.symbols = 70;  // more than bits
    listing.constants = {3, bits(700.0), 1};
    const std::int32_t three = 70, cost = 71, one = 72;
    const auto add = [&](BinderOp op, std::initializer_list<std::int32_t> of) {
        return static_cast<std::int32_t>(listing.add(op, of));
    };
    const std::int32_t known = add(BinderOp::mul, {three, three});
    const std::int32_t ends = add(BinderOp::add, {0, 69});
    add(BinderOp::mul, {ends, known});
    add(BinderOp::sub, {62, 63});
    add(BinderOp::units_per_chunk, {ends, cost, cost, one});
    const std::int32_t groups = add(BinderOp::max, {5, one});
    for (const BinderOp result : {BinderOp::conv_units, BinderOp::conv_groups}) {
        add(result, {groups, three, cost, one, one, cost, cost});
    }
    const Binder binder = listing.build();
    std::vector<std::int64_t> symbols(70, 7);
    std::vector<Slot> slots = binder.evaluate(symbols);
    for (const std::size_t changed : {0, 5, 62, 63, 69, 30}) {
        symbols[changed] = 1000 + static_cast<std::int64_t>(changed);
        symbols[5] += 1;
        binder.update(slots, symbols);
        CHECK(slots == binder.evaluate(symbols));
    }
    binder.update(slots, symbols);
    CHECK(slots == binder.evaluate(symbols));
    symbols[0] = kMost;
    CHECK_THROWS(BindingFailure, binder.update(slots, symbols));
    symbols.pop_back();
    CHECK_THROWS(std::invalid_argument, binder.update(slots, symbols));
}

}  // namespace treadle::testing
