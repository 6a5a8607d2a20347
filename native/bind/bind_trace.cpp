#include <nanobind/nanobind.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <tuple>

#include "bind.h"
#include "interpreter.h"
#include "treadle/trace.h"

namespace nb = nanobind;

namespace {

using PyEvent = std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                           std::int64_t, std::int64_t, std::uint64_t, std::int64_t>;

std::vector<PyEvent> trace_stop() {
    const ReleasedGil released;
    std::vector<PyEvent> events;
    for (const treadle::Event& e : treadle::trace_stop()) {
        events.emplace_back(e.program, e.step, e.team, e.slot, e.thread, e.start_ns, e.end_ns, e.chunks, e.run,
                            e.iteration);
    }
    return events;
}

}  // namespace

void bind_trace(nb::module_& m) {
    m.def("trace_start", &treadle::trace_start, nb::call_guard<ReleasedGil>(),
          "Drop earlier events and start recording.");
    m.def("trace_stop", &trace_stop,
          "Stop recording. Return (program id, step, team, slot, OS thread, start_ns, end_ns, chunks, run id, iteration)\n"
          "of each worker's part in a step, by start time; iteration is -1 outside loops. Slots count from 0; -1 - i is blocking worker i.");
}
