#include "treadle/tiling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace treadle {

namespace {

// The weight of the load imbalance among a number of workers.
struct Weight {
    std::int64_t workers;
    double share;
};

constexpr std::array<Weight, 4> kUsualWorkers{{{1, 0.3}, {2, 0.3}, {4, 0.25}, {8, 0.15}}};

// The share of the time that is charged where there are 1/e, or e times, as many chunks as wanted.
constexpr double kTooFew = 0.3;
constexpr double kTooMany = 0.1;

// The number of chunks from which on load imbalance is small whatever their number.
constexpr double kManyChunks = 32.0;

// The most chunks of a product in parts: larger chunks read the factors less often, and their part of them fits L2 all
// the same.
constexpr std::int64_t kPartChunks = 128;

// With fewer chunks of a product, workers may be left without one.
constexpr std::int64_t kEnoughChunks = 8;

// A single block of rows reads panels by turns, as streams from memory: one alone is a tenth slower.
constexpr std::int64_t kTurns = 2;

// Copying a panel into scratch reads and writes L2. Packing b by a call of its own takes as long as moving it so often
// through L3: it is written, read again by several chunks, and all workers wait for it. `benches.micro.estimates`
// compares with times.
constexpr double kCopyMoves = 2.0;
constexpr double kPackMoves = 8.0;

// The part of L2 that the rows of a convolution may fill that is pooled at once.
constexpr double kBandShare = 0.5;

constexpr std::int64_t ceil_div(std::int64_t size, std::int64_t number) { return size / number + (size % number > 0); }

constexpr double real(std::int64_t number) { return static_cast<double>(number); }

constexpr std::int64_t chunks_of(Division axis) { return ceil_div(axis.units, axis.each); }

constexpr std::int64_t last_of(Division axis) { return axis.units - (chunks_of(axis) - 1) * axis.each; }

// Returns `number` rounded half to even, between `least` and `most`.
std::int64_t rounded(double number, std::int64_t least, std::int64_t most) {
    return static_cast<std::int64_t>(std::min(real(most), std::max(real(least), std::nearbyint(number))));
}

// Returns what `grid` costs, in ns. `room`: bytes of L2 for the rows of a chunk.
double cost_of(const Grid& grid, const GridRequest& request, std::int64_t wanted, double batch_ns, double room) {
    const auto& [blocks, panels, batches, block_ns, a_bytes, b_bytes, l2, copies, share, l2_speed, l3_speed, usual_ns] =
        request;
    const std::int64_t block_chunks = ceil_div(blocks, grid.blocks);
    const std::int64_t panel_chunks = ceil_div(panels, grid.panels);
    const std::int64_t chunks = block_chunks * panel_chunks;
    double cost = (a_bytes * real(panel_chunks) + b_bytes * real(block_chunks)) / l3_speed;
    if (copies) cost += b_bytes * (block_chunks == 1 ? kCopyMoves / l2_speed : kPackMoves / l3_speed);
    if (share * a_bytes * real(grid.blocks) / real(blocks) > room) cost += a_bytes * real(panels) / l3_speed;
    const std::int64_t done = block_chunks * grid.blocks * panel_chunks * grid.panels;
    cost += block_ns * real(done - blocks * panels) / 4;
    cost += std::max(0.0, real(wanted) / 2 - real(chunks)) * usual_ns / 4;
    const std::int64_t missing = std::min(wanted, kEnoughChunks) - chunks;
    cost += real(std::max(std::int64_t{0}, missing)) * batch_ns / real(kEnoughChunks);
    return cost;
}

}  // namespace

double wanted_chunks(double ns, double usual_chunk_ns, double times) {
    const double useful = std::min(ns / (kLeastChunk * usual_chunk_ns), real(kUsefulChunks));
    return std::min(real(kMaxChunks), std::max({ns / (times * usual_chunk_ns), useful, 1.0}));
}

double load_imbalance(Division rows, Division columns, double wanted) {
    const std::int64_t row_count = chunks_of(rows), row_last = last_of(rows);
    const std::int64_t column_count = chunks_of(columns), column_last = last_of(columns);
    const std::int64_t chunks = row_count * column_count;
    const std::int64_t full = (row_count - 1) * column_count;
    const double whole = real(rows.units * columns.units);
    const std::int64_t worth = std::max(static_cast<std::int64_t>(wanted), chunks);
    double waited = 0.0;
    for (const auto& [workers, share] : kUsualWorkers) {
        if (workers == 1) continue;
        const std::int64_t rounds = ceil_div(chunks, workers), large = ceil_div(full, workers);
        std::int64_t time = (large * rows.each + (rounds - large) * row_last) * columns.each;
        if (chunks - (rounds - 1) * workers == 1) {
            time -= (rounds > large ? row_last : rows.each) * columns.each - row_last * column_last;
        }
        waited += share * (real(time * std::min(workers, worth)) / whole - 1.0);
    }
    const double ratio = wanted / real(chunks), inverse = real(chunks) / wanted;
    return waited + std::max(kTooFew * std::log(ratio), kTooMany * std::log(inverse));
}

double imbalance_factor(std::int64_t chunks) {
    double factor = 0.0;
    for (const auto& [workers, share] : kUsualWorkers) {
        factor += share * real(ceil_div(chunks, workers)) * real(workers) / real(chunks);
    }
    return factor;
}

std::int64_t units_per_chunk(std::int64_t units, double ns_per_unit, double usual_chunk_ns, std::int64_t multiple) {
    if (units <= 0) return 1;
    multiple = std::max(multiple, std::int64_t{1});
    const std::int64_t pieces = ceil_div(units, multiple);
    const double wanted = wanted_chunks(real(units) * ns_per_unit, usual_chunk_ns);
    const bool many = wanted >= kManyChunks;
    const auto least = static_cast<std::int64_t>(many ? wanted : std::ceil(0.7 * wanted));
    const auto most = static_cast<std::int64_t>(many ? wanted : 1.5 * wanted);
    std::int64_t best = 0;
    double lowest = std::numeric_limits<double>::infinity();
    for (std::int64_t count = least; count <= most; ++count) {
        const std::int64_t size = ceil_div(pieces, std::min(count, pieces));
        const double lost = load_imbalance({pieces, size}, {1, 1}, wanted);
        if (lost < lowest) {
            lowest = lost;
            best = size;
        }
    }
    return best * multiple;
}

Grid choose_grid(const GridRequest& asked) {
    GridRequest request = asked;
    request.blocks = std::max(asked.blocks, std::int64_t{1});
    request.panels = std::max(asked.panels, std::int64_t{1});
    request.batches = std::max(asked.batches, std::int64_t{1});
    const std::int64_t blocks = request.blocks, panels = request.panels, batches = request.batches;
    const double batch_ns = std::max(request.block_ns * real(blocks) * real(panels), 1e-3);
    const double usual_chunk_ns = request.usual_chunk_ns;
    if (batch_ns * 2 <= usual_chunk_ns || batches >= kMaxChunks) {
        const std::int64_t wanted = rounded(real(batches) * batch_ns / usual_chunk_ns, 1, kMaxChunks);
        return {ceil_div(batches, wanted), blocks, panels};
    }
    if (blocks == 1 && batches == 1 && !request.copies) {
        const std::int64_t together = request.block_ns < usual_chunk_ns ? kTurns : 1;
        return {1, 1, units_per_chunk(panels, request.block_ns, usual_chunk_ns, together)};
    }
    const std::int64_t most = request.share == 1.0 ? kMaxChunks : std::max(kPartChunks, batches);
    const std::int64_t wanted = rounded(batch_ns / usual_chunk_ns, 1, most / batches);
    const double l2 = real(request.l2);
    const double room = std::max(0.75 * l2 - request.share * request.b_bytes / real(panels), 0.2 * l2);
    Grid best{1, blocks, panels};
    double lowest = std::numeric_limits<double>::infinity();
    for (std::int64_t block_chunks = 1; block_chunks <= std::min(blocks, wanted); ++block_chunks) {
        const std::int64_t panel_chunks = std::min(panels, ceil_div(wanted, block_chunks));
        const Grid grid{1, ceil_div(blocks, block_chunks), ceil_div(panels, panel_chunks)};
        const double cost = cost_of(grid, request, wanted, batch_ns, room);
        if (cost < lowest) {
            lowest = cost;
            best = grid;
        }
    }
    return best;
}

ConvPartition partition_conv(const ConvRequest& request) {
    const auto& [units, groups, ns, weight_bytes, x_bytes, shared_speed, usual_chunk_ns] = request;
    const double wanted = wanted_chunks(ns, usual_chunk_ns, kConvChunk);
    ConvPartition best{units, groups};
    double lowest = std::numeric_limits<double>::infinity();
    for (std::int64_t group_chunks = 1; group_chunks <= groups; ++group_chunks) {
        const std::int64_t groups_each = ceil_div(groups, group_chunks);
        if (ceil_div(groups, groups_each) < group_chunks) continue;
        // Numbers of chunks along the units near `share`, from the largest on; if all are below, the largest.
        const double share = wanted / real(group_chunks), least = 0.8 * share;
        const std::int64_t fewest = std::max(std::int64_t{1}, static_cast<std::int64_t>(std::ceil(least)));
        std::int64_t previous = 0;
        for (std::int64_t count = std::max(fewest, static_cast<std::int64_t>(1.3 * share)); count >= fewest; --count) {
            const std::int64_t units_each = ceil_div(units, std::min(units, count));
            const std::int64_t unit_chunks = ceil_div(units, units_each);
            if (units_each == previous) continue;
            if (previous > 0 && real(unit_chunks) < least) break;
            previous = units_each;
            const double traffic = real(unit_chunks * weight_bytes + group_chunks * x_bytes) / shared_speed;
            const double cost = traffic + ns * load_imbalance({groups, groups_each}, {units, units_each}, wanted);
            if (cost < lowest) {
                lowest = cost;
                best = {units_each, groups_each};
            }
        }
    }
    return best;
}

PlanePartition partition_planes(std::int64_t planes, std::int64_t rows, double ns, double usual_chunk_ns) {
    const double wanted = wanted_chunks(ns, usual_chunk_ns);
    const auto lost_by = [&](PlanePartition chunk) {
        return load_imbalance({planes, chunk.planes}, {rows, chunk.rows}, wanted);
    };
    // A partition that loses least has no number of chunks for which alone more is charged than this one loses in all.
    const auto about = std::max(std::int64_t{1}, static_cast<std::int64_t>(wanted));
    const double bound = lost_by(about <= planes ? PlanePartition{ceil_div(planes, about), rows}
                                                 : PlanePartition{1, ceil_div(rows, std::min(rows, about / planes))});
    const double fewest = 0.999 * wanted * std::exp(-bound / kTooFew), most = 1.001 * wanted * std::exp(bound / kTooMany);
    PlanePartition best{planes, rows};
    double lowest = std::numeric_limits<double>::infinity();
    const auto consider = [&](PlanePartition chunk) {
        const double chunks = real(ceil_div(planes, chunk.planes) * ceil_div(rows, chunk.rows));
        if (chunks < fewest || chunks > most) return;
        const double lost = lost_by(chunk);
        if (lost >= lowest) return;
        lowest = lost;
        best = chunk;
    };
    for (std::int64_t each = 1; each <= planes; ++each) consider({each, rows});
    for (std::int64_t each = rows - 1; each >= 1; --each) consider({1, each});
    return best;
}

std::int64_t choose_band(const BandRequest& request) {
    const double ns = request.conv_ns + request.pool_ns;
    const double wanted = std::min(wanted_chunks(ns, request.usual_chunk_ns), real(kUsefulChunks));
    const std::int64_t shared = std::max(std::int64_t{0}, request.reach - request.stride);
    std::int64_t best = 0;
    double lowest = real(request.images * request.rows * request.row_bytes) / request.l3_bytes_per_ns;
    for (std::int64_t rows = 1; rows <= request.out_rows; ++rows) {
        const std::int64_t most = std::min((rows - 1) * request.stride + request.reach, request.rows);
        if (real(most * request.row_bytes + request.scratch) > kBandShare * real(request.l2)) break;
        const std::int64_t chunks = ceil_div(request.out_rows, rows);
        const double again = real(shared * (chunks - 1)) * request.conv_ns / real(request.rows);
        const double fetched = real(request.images * chunks * request.weight_bytes) / request.l3_shared_bytes_per_ns;
        const double lost = ns * load_imbalance({request.out_rows, rows}, {request.images, 1}, wanted);
        const double cost = again + fetched + lost;
        if (cost < lowest || (best == 0 && cost == lowest)) {
            lowest = cost;
            best = rows;
        }
    }
    return best;
}

}  // namespace treadle
