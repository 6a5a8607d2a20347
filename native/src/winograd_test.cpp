#include "treadle/winograd.h"

#include <cmath>
#include <cstdint>

#include "treadle/check.h"

namespace treadle {

namespace {

WinogradRequest request_of(std::int64_t tiles, bool fused) {
    return {tiles, 4, 6, 2, 50, 64, 8, 8, 36, 1, fused, 120.0, 60.0, 0.0, 0.3, 64 * 64 * 36 * 4, 32, 1 << 19,
            0.09, 0.03, 3000.0, 60'000.0, 8};
}

}  // namespace

TREADLE_TEST(groups_of_tiles_have_whole_register_blocks) {
    for (std::int64_t tiles = 1; tiles <= 400; ++tiles) {
        for (const bool fused : {false, true}) {
            const auto found = partition_winograd(request_of(tiles, fused));
            const std::int64_t blocks = (found.tiles + 5) / 6;
            CHECK(found.tiles >= 4 * blocks && found.tiles <= 50);
            CHECK(found.groups >= 1 && found.groups <= 4);
            CHECK(found.total >= found.input + found.product - 2);
        }
    }
}

TREADLE_TEST(more_tiles_cost_more) {
    CHECK(partition_winograd(request_of(400, true)).total > partition_winograd(request_of(40, true)).total);
}

TREADLE_TEST(faulty_requests_are_found) {
    CHECK(fault_of(request_of(1, true)) == nullptr);
    CHECK(fault_of(request_of(0, true)) != nullptr);
    CHECK(fault_of(request_of((std::int64_t{1} << 40) + 1, true)) != nullptr);
    auto request = request_of(9, true);
    request.least = 7;
    CHECK(fault_of(request) != nullptr);
    request = request_of(9, true);
    request.points = 0;
    CHECK(fault_of(request) != nullptr);
    request = request_of(9, true);
    request.first_cost = std::nan("");
    CHECK(fault_of(request) != nullptr);
}

TREADLE_TEST(the_largest_requests_have_costs) {
    constexpr std::int64_t most = std::int64_t{1} << 24;
    const auto found = partition_winograd({std::int64_t{1} << 40, 1, most, most, 1, most, most, most, most, most, false,
                                           1e300, 1e300, 1e300, 1e300, most, most, 0, 1e300, 1e300, 1e300, 1e300, most});
    CHECK(found.total >= 0 && found.tiles >= 0);
}

}  // namespace treadle
