#include "treadle/winograd.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "treadle/tiling.h"

namespace treadle {

namespace {

// The constants of costs were fitted to measured layers: see docs/measurements/winograd.md. To check them,
// `python -m benches.micro.winograd --tilings 12` times the methods that they rate best.

// Register blocks in a group of tiles.
constexpr std::array<std::int64_t, 6> kGroupBlocks{1, 2, 3, 4, 6, 8};

// Register blocks of fewer tiles wait for weights from L2.
constexpr std::int64_t kLeastHeight = 3;

// Cost of beginning and storing a register block, in each section.
constexpr double kBlockCost = 40.0;

// A byte of transformed input is written and read; within L2 that takes kCachedShare of the time.
constexpr double kPasses = 2.0;
constexpr double kCachedShare = 0.4;

constexpr std::int64_t ceil_div(std::int64_t size, std::int64_t number) { return size / number + (size % number > 0); }

constexpr double real(std::int64_t number) { return static_cast<double>(number); }

std::int64_t whole(double cost) { return static_cast<std::int64_t>(std::min(std::ceil(cost), 0x1p62)); }

// Returns the cost of `count` register blocks of `height` tiles.
double blocks_cost(const WinogradRequest& request, std::int64_t height, std::int64_t count) {
    const std::int64_t sums = std::max({height * request.vectors, request.in_flight, kLeastHeight * request.vectors});
    return real(count) * (real(request.channels) * real(sums) + kBlockCost * real(request.sections));
}

// Returns the cost of the products of a group of `tiles` tiles at one point with `vectors` vectors of output channels.
double group_cost(const WinogradRequest& request, std::int64_t tiles) {
    const std::int64_t blocks = ceil_div(tiles, request.most);
    const std::int64_t height = tiles / blocks, larger = tiles % blocks;
    const double cost = larger > 0 ? blocks_cost(request, height + 1, larger) : 0.0;
    return cost + blocks_cost(request, height, blocks - larger);
}

// Returns the cost of transforming the input once.
double input_cost(const WinogradRequest& request, std::int64_t tiles, std::int64_t groups) {
    const double cost = request.input_cost * real(tiles) * real(groups) * real(request.in_blocks);
    if (request.fused) return cost;
    const double bytes =
        real(request.points) * real(groups) * real(tiles) * real(request.in_blocks) * real(request.vector_bytes);
    const double share = 2 * bytes > real(request.l2) ? 1.0 : kCachedShare;
    return cost + request.call_cost + bytes * kPasses * request.l3_byte_cost * share;
}

// Returns what reading the weights again adds to the products, which cost `product` in all groups of tiles. The first
// group does not read them again. The longer the reads, the less of them the products hide.
double reread_cost(const WinogradRequest& request, double product, std::int64_t groups) {
    const double weights = real(request.weight_bytes);
    if (groups == 1 || 2 * weights <= real(request.l2)) return 0.0;
    const double reads = request.reread_cost * weights * real(groups - 1);
    const double products = product / real(groups) * real(groups - 1);
    return std::isfinite(reads + products) ? reads * (reads / (reads + products)) : reads;
}

// Returns the cost of everything after the transform of the input.
double product_cost(const WinogradRequest& request, std::int64_t tiles, std::int64_t groups) {
    const double out_groups = real(ceil_div(request.out_blocks, request.vectors));
    const double product = real(request.points) * group_cost(request, tiles) * real(groups) * out_groups;
    return product + request.factor_cost * real(groups) +
           request.output_cost * real(request.tiles) * real(request.out_blocks) +
           request.first_cost * real(request.weight_bytes) + reread_cost(request, product, groups);
}

// Returns the groups of output channels of a chunk: few if the input is transformed before, else many.
std::int64_t groups_of_chunk(const WinogradRequest& request, double product, std::int64_t groups) {
    double wanted = std::min(real(kUsefulChunks), std::max(1.0, product / (kLeastChunk * request.chunk_cost)));
    if (!request.fused) wanted = std::max(wanted, product / (kConvChunk * request.chunk_cost));
    const std::int64_t out_groups = ceil_div(request.out_blocks, request.vectors);
    const double chunks = std::max(1.0, std::nearbyint(wanted / real(groups)));
    return ceil_div(out_groups, static_cast<std::int64_t>(std::min(real(out_groups), chunks)));
}

}  // namespace

const char* fault_of(const WinogradRequest& request) {
    constexpr std::int64_t most_tiles = std::int64_t{1} << 40, most_size = std::int64_t{1} << 24;
    if (request.tiles < 1) return "partitions a convolution without results";
    if (request.tiles > most_tiles) return "partitions a convolution of more than 2**40 tiles";
    for (const std::int64_t size : {request.least, request.most, request.vectors, request.channels, request.in_blocks,
                                    request.out_blocks, request.points, request.sections, request.in_flight}) {
        if (size < 1 || size > most_size) return "partitions a convolution with a size that is not in 1..2**24";
    }
    if (request.least > request.most) return "partitions a convolution whose least height exceeds the largest";
    for (const double cost : {request.input_cost, request.output_cost, request.factor_cost, request.first_cost,
                              request.l3_byte_cost, request.reread_cost, request.call_cost, request.chunk_cost}) {
        if (!std::isfinite(cost) || cost < 0) return "partitions a convolution with a cost that is not finite and >= 0";
    }
    return nullptr;
}

WinogradPartition partition_winograd(const WinogradRequest& request) {
    WinogradPartition best{};
    double lowest = std::numeric_limits<double>::infinity();
    std::int64_t previous = 0;
    for (const std::int64_t blocks : kGroupBlocks) {
        const std::int64_t wanted = ceil_div(request.tiles, ceil_div(request.tiles, request.most * blocks));
        const std::int64_t tiles = std::max(wanted, request.least * ceil_div(wanted, request.most));
        if (tiles == previous || tiles > std::max(request.most, request.room)) continue;
        previous = tiles;
        const std::int64_t groups = ceil_div(request.tiles, tiles);
        const double input = input_cost(request, tiles, groups), product = product_cost(request, tiles, groups);
        const std::int64_t each = groups_of_chunk(request, product, groups);
        const std::int64_t chunks = ceil_div(ceil_div(request.out_blocks, request.vectors), each);
        const double total =
            input * (request.fused ? real(chunks) : 1.0) + product * imbalance_factor(chunks * groups);
        if (total < lowest) {
            lowest = total;
            best = {tiles, each, whole(input), whole(product), whole(total)};
        }
    }
    return best;
}

}  // namespace treadle
