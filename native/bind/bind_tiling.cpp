#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "bind.h"
#include "treadle/tiling.h"

namespace nb = nanobind;

namespace {

using Pair = std::pair<std::int64_t, std::int64_t>;

void check_axes(const char* function, const char* one, std::int64_t size, const char* other, std::int64_t other_size) {
    if (size >= 1 && other_size >= 1) return;
    throw std::invalid_argument(std::string(function) + ": " + one + " and " + other + " must be at least 1, got " +
                                std::to_string(size) + " and " + std::to_string(other_size));
}

double imbalance_factor(std::int64_t chunks) {
    if (chunks >= 1) return treadle::imbalance_factor(chunks);
    throw std::invalid_argument("imbalance_factor: chunks must be at least 1, got " + std::to_string(chunks));
}

std::tuple<std::int64_t, std::int64_t, std::int64_t> choose_grid(std::int64_t blocks, std::int64_t panels,
                                                                 std::int64_t batches, double block_ns, double a_bytes,
                                                                 double b_bytes, std::int64_t l2, bool copies,
                                                                 double share, double l2_bytes_per_ns,
                                                                 double l3_bytes_per_ns, double usual_chunk_ns) {
    const auto grid = treadle::choose_grid({blocks, panels, batches, block_ns, a_bytes, b_bytes, l2, copies, share,
                                            l2_bytes_per_ns, l3_bytes_per_ns, usual_chunk_ns});
    return {grid.batches, grid.blocks, grid.panels};
}

Pair partition_conv(std::int64_t units, std::int64_t groups, double ns, std::int64_t weight_bytes,
                    std::int64_t x_bytes, double l3_shared_bytes_per_ns, double usual_chunk_ns) {
    check_axes("partition_conv", "units", units, "groups", groups);
    const auto chunk =
        treadle::partition_conv({units, groups, ns, weight_bytes, x_bytes, l3_shared_bytes_per_ns, usual_chunk_ns});
    return {chunk.units, chunk.groups};
}

Pair partition_planes(std::int64_t planes, std::int64_t rows, double ns, double usual_chunk_ns) {
    check_axes("partition_planes", "planes", planes, "rows", rows);
    const auto chunk = treadle::partition_planes(planes, rows, ns, usual_chunk_ns);
    return {chunk.planes, chunk.rows};
}

std::int64_t choose_band(std::int64_t images, std::int64_t out_rows, std::int64_t rows, std::int64_t row_bytes,
                         std::int64_t reach, std::int64_t stride, std::int64_t weight_bytes, std::int64_t scratch,
                         double conv_ns, double pool_ns, std::int64_t l2, double l3_bytes_per_ns,
                         double l3_shared_bytes_per_ns, double usual_chunk_ns) {
    check_axes("choose_band", "images", images, "out_rows", out_rows);
    check_axes("choose_band", "rows", rows, "reach", reach);
    return treadle::choose_band(
        {images, out_rows, rows, row_bytes, reach, stride, weight_bytes, scratch, conv_ns, pool_ns, l2, l3_bytes_per_ns,
         l3_shared_bytes_per_ns, usual_chunk_ns});
}

}  // namespace

void bind_tiling(nb::module_& m) {
    m.attr("LEAST_CHUNK") = treadle::kLeastChunk;
    m.def("imbalance_factor", &imbalance_factor, nb::arg("chunks"),
          "Return the time of equal chunks relative to a perfect balance, averaged over usual numbers of workers.");
    m.def("units_per_chunk", &treadle::units_per_chunk, nb::arg("units"), nb::arg("ns_per_unit"),
          nb::arg("usual_chunk_ns"), nb::arg("multiple") = 1,
          "Return the units of a chunk, a multiple of `multiple`; 1 if there are no units.");
    m.def("choose_grid", &choose_grid, nb::arg("blocks"), nb::arg("panels"), nb::arg("batches"), nb::arg("block_ns"),
          nb::arg("a_bytes"), nb::arg("b_bytes"), nb::arg("l2"), nb::arg("copies"), nb::arg("share"),
          nb::arg("l2_bytes_per_ns"), nb::arg("l3_bytes_per_ns"), nb::arg("usual_chunk_ns"),
          "Return the batches, blocks and panels of each chunk of a batch of matrix products.");
    m.def("partition_conv", &partition_conv, nb::arg("units"), nb::arg("groups"), nb::arg("ns"),
          nb::arg("weight_bytes"), nb::arg("x_bytes"), nb::arg("l3_shared_bytes_per_ns"),
          nb::arg("usual_chunk_ns"),
          "Return the units and the groups of output channels of each chunk of a direct convolution.");
    m.def("partition_planes", &partition_planes, nb::arg("planes"), nb::arg("rows"), nb::arg("ns"),
          nb::arg("usual_chunk_ns"), "Return the planes and the rows of each chunk of a depthwise convolution.");
    m.def("choose_band", &choose_band, nb::arg("images"), nb::arg("out_rows"), nb::arg("rows"), nb::arg("row_bytes"),
          nb::arg("reach"), nb::arg("stride"), nb::arg("weight_bytes"), nb::arg("scratch"), nb::arg("conv_ns"),
          nb::arg("pool_ns"), nb::arg("l2"), nb::arg("l3_bytes_per_ns"), nb::arg("l3_shared_bytes_per_ns"),
          nb::arg("usual_chunk_ns"),
          "Return the pooled rows of each chunk of a convolution that is pooled at once; 0 if two calls are faster.");
}
