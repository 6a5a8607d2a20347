// Searches over partitions into chunks. Lowering calls them for sizes that it knows, binding for the others, and both get
// the same result: all costs are doubles, computed in one order without contraction. Sizes are at most 2^40.
//
// All are given `usual_chunk_ns`, the time that a chunk of a long op is worth on the machine that estimates are for. So
// an op has as many chunks on a machine that is twice as fast in everything.
#pragma once

#include <cstdint>

namespace treadle {

// A short op has kUsefulChunks chunks, unless each would be worth less than this part of usual_chunk_ns.
inline constexpr double kLeastChunk = 0.25;
inline constexpr std::int64_t kUsefulChunks = 8;
inline constexpr std::int64_t kMaxChunks = 256;
// A chunk of a long convolution is worth about so many times usual_chunk_ns.
inline constexpr double kConvChunk = 1.5;

// Division is an axis of `units` units of which each chunk has `each`; the last chunk may be smaller. Both are at least 1.
struct Division {
    std::int64_t units;
    std::int64_t each;
};

// wanted_chunks() returns the best number of chunks for an op of `ns`; those of a long op are worth `times` times
// usual_chunk_ns.
double wanted_chunks(double ns, double usual_chunk_ns, double times = 1.0);

// load_imbalance() returns the share of the time that is lost where work is partitioned along two axes. Workers draw
// chunks row by row. Lost is the time in which workers wait for each other, averaged over usual numbers of workers up to
// the `wanted` number of chunks: results must not depend on the actual number. Other numbers of chunks than `wanted` are
// charged a little.
double load_imbalance(Division rows, Division columns, double wanted);

// imbalance_factor() returns the time of `chunks` (at least 1) equal chunks relative to a perfect balance, averaged over
// usual numbers of workers. Unlike load_imbalance() this counts a short last chunk as a full one: the costs of products of
// tiles, which it multiplies, were fitted to layers that were chosen so. If short chunks counted, 58 of 2,968 shapes would
// have another tiling with AVX-512 (94 of 3,018 with AVX2), three of googlenet's among them, for 2 % of the cost (median;
// 7 % at most).
double imbalance_factor(std::int64_t chunks);

// units_per_chunk() returns the units of a chunk, a multiple of `multiple`, for `units` units of work. There are about as
// many chunks as the work is worth, with little load imbalance. It is 1 where there are no units.
std::int64_t units_per_chunk(std::int64_t units, double ns_per_unit, double usual_chunk_ns, std::int64_t multiple = 1);

// GridRequest is a batch of matrix products that register blocks divide into rows, and panels into columns.
struct GridRequest {
    std::int64_t blocks;
    std::int64_t panels;
    std::int64_t batches;
    double block_ns;  // the time of one block of one panel
    double a_bytes;   // of the factors of one product
    double b_bytes;
    std::int64_t l2;
    bool copies;   // b is copied, by each chunk or, where several would copy the same panel, beforehand
    double share;  // of the depth that is multiplied at once
    double l2_bytes_per_ns;  // bandwidth of one core, here and below: see the machine model
    double l3_bytes_per_ns;
    double usual_chunk_ns;
};

// Grid is what a chunk of a batch of products has of each axis.
struct Grid {
    std::int64_t batches;
    std::int64_t blocks;
    std::int64_t panels;
};

// choose_grid() returns chunks worth about usual_chunk_ns each that move the least memory. A single block of rows moves
// its factors once, however its panels are shared: as units_per_chunk() does.
Grid choose_grid(const GridRequest& request);

// ConvRequest is a direct convolution: units of the images, and groups of output channels. Both are at least 1.
struct ConvRequest {
    std::int64_t units;
    std::int64_t groups;
    double ns;                  // the time of the whole
    std::int64_t weight_bytes;  // read by each chunk of units
    std::int64_t x_bytes;       // read by each chunk of groups
    double l3_shared_bytes_per_ns;
    double usual_chunk_ns;
};

// ConvPartition is what a chunk of a direct convolution has of each axis.
struct ConvPartition {
    std::int64_t units;
    std::int64_t groups;
};

// partition_conv() returns chunks of little traffic and load imbalance, worth about kConvChunk times usual_chunk_ns.
ConvPartition partition_conv(const ConvRequest& request);

// PlanePartition is what a chunk of a depthwise convolution has of each axis; one of them is undivided.
struct PlanePartition {
    std::int64_t planes;
    std::int64_t rows;
};

// partition_planes() returns the most even partition into about wanted_chunks(ns, usual_chunk_ns) chunks. Both axes are
// at least 1.
PlanePartition partition_planes(std::int64_t planes, std::int64_t rows, double ns, double usual_chunk_ns);

// BandRequest is a direct convolution of `images`, whose result a max pooling reads. Lengths are those of the vertical axis,
// all at least 1.
struct BandRequest {
    std::int64_t images;
    std::int64_t out_rows;  // of the pooled image
    std::int64_t rows;      // of the convolution's result, which has `row_bytes` each
    std::int64_t row_bytes;
    std::int64_t reach;  // rows of a window
    std::int64_t stride;
    std::int64_t weight_bytes;
    std::int64_t scratch;  // bytes that the convolution needs beside its result
    double conv_ns;
    double pool_ns;
    std::int64_t l2;
    double l3_bytes_per_ns;
    double l3_shared_bytes_per_ns;
    double usual_chunk_ns;
};

// choose_band() returns the rows of the pooled image that a chunk computes, the cheapest number. Costs are rows that two
// chunks compute, weights that each reads, and load imbalance. It is 0 where these exceed the time to write the
// convolution's result to memory once, and where no band fits in L2.
std::int64_t choose_band(const BandRequest& request);

}  // namespace treadle
