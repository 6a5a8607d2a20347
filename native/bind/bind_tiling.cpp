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

treadle::Division to_division(Pair axis) {
    if (axis.first >= 1 && axis.second >= 1) return {axis.first, axis.second};
    throw std::invalid_argument("load_imbalance: an axis must have at least 1 unit and 1 unit per chunk, got (" +
                                std::to_string(axis.first) + ", " + std::to_string(axis.second) + ")");
}

double load_imbalance(Pair rows, Pair columns, double wanted) {
    return treadle::load_imbalance(to_division(rows), to_division(columns), wanted);
}

double imbalance_factor(std::int64_t chunks) {
    if (chunks >= 1) return treadle::imbalance_factor(chunks);
    throw std::invalid_argument("imbalance_factor: chunks must be at least 1, got " + std::to_string(chunks));
}

std::tuple<std::int64_t, std::int64_t, std::int64_t> choose_grid(std::int64_t blocks, std::int64_t panels,
                                                                 std::int64_t batches, double block_ns, double a_bytes,
                                                                 double b_bytes, std::int64_t l2, bool copies,
                                                                 double share) {
    const auto grid = treadle::choose_grid({blocks, panels, batches, block_ns, a_bytes, b_bytes, l2, copies, share});
    return {grid.batches, grid.blocks, grid.panels};
}

}  // namespace

void bind_tiling(nb::module_& m) {
    m.attr("CHUNK_NS") = treadle::kChunkNs;
    m.attr("LEAST_CHUNK_NS") = treadle::kLeastChunkNs;
    m.attr("USEFUL_CHUNKS") = treadle::kUsefulChunks;
    m.attr("MAX_CHUNKS") = treadle::kMaxChunks;
    m.attr("BYTES_PER_NS") = treadle::kBytesPerNs;
    m.def("wanted_chunks", &treadle::wanted_chunks, nb::arg("ns"), nb::arg("usual") = treadle::kChunkNs,
          "Return the best number of chunks for an op of `ns`; chunks of a long op are worth `usual` ns.");
    m.def("load_imbalance", &load_imbalance, nb::arg("rows"), nb::arg("columns"), nb::arg("wanted"),
          "Return the share of the time that is lost by a partition along two axes, each (units, units per chunk).");
    m.def("imbalance_factor", &imbalance_factor, nb::arg("chunks"),
          "Return the time of equal chunks relative to a perfect balance, averaged over usual numbers of workers.");
    m.def("units_per_chunk", &treadle::units_per_chunk, nb::arg("units"), nb::arg("ns_per_unit"),
          nb::arg("multiple") = 1, "Return the units of a chunk, a multiple of `multiple`; 1 if there are no units.");
    m.def("choose_grid", &choose_grid, nb::arg("blocks"), nb::arg("panels"), nb::arg("batches"), nb::arg("block_ns"),
          nb::arg("a_bytes"), nb::arg("b_bytes"), nb::arg("l2"), nb::arg("copies"), nb::arg("share"),
          "Return the batches, blocks and panels of each chunk of a batch of matrix products.");
}
