#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>

#include "bind.h"
#include "treadle/winograd.h"

namespace nb = nanobind;

namespace {

using Found = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

Found partition_winograd(std::int64_t tiles, std::int64_t least, std::int64_t most, std::int64_t vectors,
                         std::int64_t room, std::int64_t channels, std::int64_t in_blocks, std::int64_t out_blocks,
                         std::int64_t points, std::int64_t sections, bool fused, double input_cost, double output_cost,
                         double factor_cost, double first_cost, std::int64_t weight_bytes, std::int64_t vector_bytes,
                         std::int64_t l2, double l3_byte_cost, double reread_cost, double call_cost,
                         double chunk_cost, std::int64_t in_flight) {
    const treadle::WinogradRequest request{tiles,     least,    most,       vectors,     room,        channels,
                                           in_blocks, out_blocks, points,   sections,    fused,       input_cost,
                                           output_cost, factor_cost, first_cost, weight_bytes, vector_bytes, l2,
                                           l3_byte_cost, reread_cost, call_cost, chunk_cost, in_flight};
    if (const char* fault = fault_of(request)) throw std::invalid_argument(std::string("partition_winograd ") + fault);
    const auto found = treadle::partition_winograd(request);
    return {found.tiles, found.groups, found.input, found.product, found.total};
}

}  // namespace

void bind_winograd(nb::module_& m) {
    m.def("partition_winograd", &partition_winograd, nb::arg("tiles"), nb::arg("least"), nb::arg("most"),
          nb::arg("vectors"), nb::arg("room"), nb::arg("channels"), nb::arg("in_blocks"), nb::arg("out_blocks"),
          nb::arg("points"), nb::arg("sections"), nb::arg("fused"), nb::arg("input_cost"), nb::arg("output_cost"),
          nb::arg("factor_cost"), nb::arg("first_cost"), nb::arg("weight_bytes"), nb::arg("vector_bytes"),
          nb::arg("l2"), nb::arg("l3_byte_cost"), nb::arg("reread_cost"), nb::arg("call_cost"), nb::arg("chunk_cost"),
          nb::arg("in_flight"),
          "Return the tiles of a group, the groups of outputs of a chunk, and the costs of the input's transform, of all\n"
          "else, and of both with the load imbalance, of a convolution by Winograd's algorithm.");
}
