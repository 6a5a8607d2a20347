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
                           std::int64_t, std::int64_t, std::uint64_t>;

std::vector<PyEvent> trace_stop() {
    const ReleasedGil released;
    std::vector<PyEvent> events;
    for (const treadle::Event& e : treadle::trace_stop()) {
        events.emplace_back(e.program, e.step, e.team, e.slot, e.thread, e.start_ns, e.end_ns, e.chunks, e.run);
    }
    return events;
}

}  // namespace

void bind_trace(nb::module_& m) {
    m.def("trace_start", &treadle::trace_start, nb::call_guard<ReleasedGil>(),
          "Forget earlier events and record from now on.");
    m.def("trace_stop", &trace_stop,
          "Stop recording. Returns by start time (program id, step, team, slot, OS thread, start_ns, end_ns, chunks,\n"
          "run id) for each worker's part in a step. Slots are 0.. for the team, -1 - i for its blocking thread i.");
}
