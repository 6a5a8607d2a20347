// The partition of convolutions by Winograd's algorithm into groups of tiles and chunks, and its costs. As in tiling.h,
// lowering and binding get the same results. Costs are in vector multiply-adds.
#pragma once

#include <cstdint>

namespace treadle {

// WinogradRequest is a convolution of `tiles` tiles, and all that is fixed before their number is known. A group of tiles
// is multiplied in register blocks of `least` to `most` tiles by `vectors` vectors of output channels.
struct WinogradRequest {
    std::int64_t tiles;  // of all images
    std::int64_t least;
    std::int64_t most;
    std::int64_t vectors;
    std::int64_t room;  // tiles of a group of several register blocks, at most
    std::int64_t channels;
    std::int64_t in_blocks;   // vectors that the input channels fill
    std::int64_t out_blocks;  // vectors that the output channels fill
    std::int64_t points;      // at which a tile is evaluated
    std::int64_t sections;    // of the input channels; their products are added up
    bool fused;               // each chunk transforms its input; else a call before does, for all chunks
    double input_cost;        // of transforming a vector of a tile
    double output_cost;       // of transforming a vector of a tile back
    double factor_cost;       // of transforming the weights, which each group of tiles does; 0: they are transformed already
    double first_cost;        // of reading a byte of weights for the first time
    std::int64_t weight_bytes;
    std::int64_t vector_bytes;
    std::int64_t l2;
    double l3_byte_cost;   // of reading a byte from L3
    double reread_cost;    // of reading a byte of weights, which L2 does not hold, once more, if nothing hides it
    double call_cost;      // of one more call that every worker waits for
    double chunk_cost;     // what a chunk of a long op is worth, see tiling.h
    std::int64_t in_flight;  // register blocks of fewer sums wait for the latency of multiply-adds
};

// WinogradPartition is the cheapest one: the tiles of a group, the groups of `vectors` vectors of a chunk, and costs,
// rounded up: of the transform of the input, once; of all else; of both with the load imbalance and repeated transforms.
struct WinogradPartition {
    std::int64_t tiles;
    std::int64_t groups;
    std::int64_t input;
    std::int64_t product;
    std::int64_t total;
};

// fault_of() says why partition_winograd() must not be called; nullptr if it may be.
const char* fault_of(const WinogradRequest& request);

// partition_winograd() returns it. Every size of the request is at least 1, `least` is not above `most`. Groups may have
// more tiles than there are: those behind the last one repeat it.
WinogradPartition partition_winograd(const WinogradRequest& request);

}  // namespace treadle
