#include "treadle/tiling.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "treadle/check.h"

namespace treadle {

namespace {

// What a chunk of a long op is worth.
constexpr double kChunkNs = 20'000.0;

}  // namespace

TREADLE_TEST(chunks_cover_all_units_in_multiples) {
    for (const std::int64_t units : {1, 5, 9, 100, 4096, 150'528}) {
        for (const double ns : {0.0, 1.0, 700.0, 1e6, 1e300}) {
            for (const std::int64_t multiple : {1, 3, 64}) {
                const std::int64_t each = units_per_chunk(units, ns, kChunkNs, multiple);
                const std::int64_t chunks = (units + each - 1) / each;
                CHECK_EQUAL(0, each % multiple);
                CHECK(chunks >= 1 && chunks <= kMaxChunks);
            }
        }
    }
}

TREADLE_TEST(no_units_and_impossible_times_give_a_partition_too) {
    CHECK_EQUAL(1, units_per_chunk(0, 1.0, kChunkNs));
    CHECK_EQUAL(1, units_per_chunk(-7, 1.0, kChunkNs));
    CHECK_EQUAL(100, units_per_chunk(100, -5.0, kChunkNs));
    CHECK(units_per_chunk(100, std::nan(""), kChunkNs) >= 1);
    CHECK_EQUAL(1, units_per_chunk(10, 1e9, kChunkNs, 0));
}

TREADLE_TEST(short_work_is_one_chunk) {
    CHECK_EQUAL(1000, units_per_chunk(1000, 0.9 * kLeastChunk * kChunkNs / 1000, kChunkNs));
    CHECK_EQUAL(1.0, wanted_chunks(0.0, kChunkNs));
}

TREADLE_TEST(eight_equal_chunks_are_balanced) {
    CHECK_EQUAL(0.0, load_imbalance({8, 1}, {1, 1}, 8.0));
    CHECK(load_imbalance({7, 1}, {1, 1}, 8.0) > 0.0);
    CHECK(std::abs(imbalance_factor(8) - 1.0) < 1e-9);
    CHECK(imbalance_factor(1) > imbalance_factor(7) && imbalance_factor(7) > 1.0);
}

TREADLE_TEST(uneven_grids_of_chunks_have_load_imbalance) {
    CHECK_EQUAL(0.0, load_imbalance({4, 1}, {4, 2}, 8.0));
    CHECK(load_imbalance({4, 3}, {3, 1}, 8.0) > 0.0);
}

TREADLE_TEST(chunks_of_convolutions_are_within_their_axes) {
    for (const std::int64_t units : {1, 7, 56, 3000}) {
        for (const std::int64_t groups : {1, 3, 64}) {
            for (const double ns : {0.0, 1e4, 1e6, 1e9}) {
                const ConvPartition chunk = partition_conv({units, groups, ns, 1 << 20, 1 << 18, 16.0, kChunkNs});
                CHECK(chunk.units >= 1 && chunk.units <= units && chunk.groups >= 1 && chunk.groups <= groups);
                const PlanePartition planes = partition_planes(units, groups, ns, kChunkNs);
                CHECK(planes.planes == 1 || planes.rows == groups);
                CHECK(planes.planes >= 1 && planes.planes <= units && planes.rows >= 1 && planes.rows <= groups);
            }
        }
    }
    CHECK_EQUAL(3000, partition_conv({3000, 1, 0.0, 0, 0, 16.0, kChunkNs}).units);
}

TREADLE_TEST(bands_fit_the_cache_and_pay) {
    BandRequest request{1, 56, 112, 1 << 14, 3, 2, 1 << 12, 0, 4e5, 2e4, 1 << 21, 32.0, 16.0, kChunkNs};
    const std::int64_t rows = choose_band(request);
    CHECK(rows >= 1 && ((rows - 1) * 2 + 3) << 14 <= 1 << 20);
    request.l2 = 1 << 10;
    CHECK_EQUAL(0, choose_band(request));
    request.l2 = 1 << 21;
    request.weight_bytes = 1 << 30;
    CHECK_EQUAL(0, choose_band(request));
}

TREADLE_TEST(a_grid_divides_each_axis_into_full_chunks) {
    for (const std::int64_t blocks : {0, 1, 15, 2000}) {
        for (const std::int64_t panels : {0, 1, 16, 300}) {
            for (const std::int64_t batches : {0, 1, 3, 500}) {
                const Grid grid =
                    choose_grid({blocks, panels, batches, 2000.0, 4e5, 2e6, 1 << 20, true, 0.5, 40.0, 32.0, kChunkNs});
                CHECK(grid.batches >= 1 && grid.batches <= std::max(batches, std::int64_t{1}));
                CHECK(grid.blocks >= 1 && grid.blocks <= std::max(blocks, std::int64_t{1}));
                CHECK(grid.panels >= 1 && grid.panels <= std::max(panels, std::int64_t{1}));
            }
        }
    }
}

TREADLE_TEST(products_with_few_rows_have_chunks_of_columns) {
    const Grid wide = choose_grid({2, 100, 1, 2000.0, 4e5, 2e6, 1 << 20, false, 1.0, 40.0, 32.0, kChunkNs});
    CHECK(100 / wide.panels >= 4);
    const Grid high = choose_grid({100, 2, 1, 2000.0, 4e5, 2e6, 1 << 20, false, 1.0, 40.0, 32.0, kChunkNs});
    CHECK(100 / high.blocks >= 4);
}

TREADLE_TEST(a_single_block_of_rows_has_chunks_that_workers_share_evenly) {
    const Grid grid = choose_grid({1, 32, 1, 3074.0, 2e3, 3e6, 1 << 21, false, 1.0, 40.0, 32.0, kChunkNs});
    CHECK(grid.panels == 4);
}

}  // namespace treadle
