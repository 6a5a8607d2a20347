#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "bind.h"
#include "weft/team.h"

namespace nb = nanobind;
using weft::Limits;
using weft::Team;

namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

Team* make_team(std::string name, int intra_op, int inter_op, double spin_us) {
    if (!(spin_us >= 0 && spin_us <= 1e6)) {
        throw std::invalid_argument("team: spin_us must be in 0..1000000, got " + std::to_string(spin_us));
    }
    return new Team(std::move(name), {intra_op, inter_op},
                    std::chrono::duration_cast<std::chrono::nanoseconds>(Microseconds(spin_us)));
}

}  // namespace

void bind_team(nb::module_& m) {
    m.attr("DEFAULT_SPIN_US") = Microseconds(weft::kDefaultSpin).count();
    m.attr("MOST_THREADS") = weft::kMostThreads;
    nb::class_<Team>(m, "Team",
                     "A team of threads: at most intra_op workers inside one op, at most inter_op ops in progress,\n"
                     "callers included. Threads are started when they first pay.")
        .def(nb::new_(&make_team), nb::arg("name"), nb::arg("intra_op"), nb::arg("inter_op"),
             nb::arg("spin_us") = Microseconds(weft::kDefaultSpin).count())
        .def(
            "set_limits", [](Team& team, int intra_op, int inter_op) { team.set_limits({intra_op, inter_op}); },
            nb::arg("intra_op"), nb::arg("inter_op"), nb::call_guard<nb::gil_scoped_release>(),
            "Change the limits, effective at the next op boundary. Any thread, any time.")
        .def_prop_ro(
            "limits",
            [](const Team& team) {
                const Limits limits = team.limits();
                return std::pair(limits.intra_op, limits.inter_op);
            },
            "(intra_op, inter_op)")
        .def_prop_ro("name", &Team::name)
        .def_prop_ro("threads", &Team::threads, "Threads started and alive, callers excluded.")
        .def(
            "close", [](Team& team) { team.close(); }, nb::call_guard<nb::gil_scoped_release>(),
            "Wait for runs in progress and end the threads; later runs raise RuntimeError.");
}
