#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>

#include "bind.h"
#include "interpreter.h"
#include "py_team.h"

namespace nb = nanobind;
using treadle::Limits;
using treadle::Team;

namespace {

using Microseconds = std::chrono::duration<double, std::micro>;

std::chrono::nanoseconds to_spin(double spin_us) {
    if (!(spin_us >= 0)) {
        throw std::invalid_argument("team: spin_us must be >= 0, got " + std::to_string(spin_us));
    }
    // A day stands for any longer time, and is far from overflow.
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Microseconds(std::min(spin_us, 86'400e6)));
}

nb::dict status(PyTeam& team) {
    const treadle::Status now = [&] {
        const ReleasedGil released;
        return team.status();
    }();
    nb::dict fields;
    fields["workers"] = now.workers;
    fields["blocking"] = now.blocking;
    fields["abandoned"] = now.abandoned;
    fields["slots"] = now.slots;
    fields["spinning"] = now.spinning;
    fields["runs"] = now.runs;
    fields["waiting"] = now.waiting;
    fields["pin_fault"] = now.pin_fault;
    fields["thread_fault"] = now.thread_fault;
    return fields;
}

// treadle::Resting as a context manager.
class PyResting {
public:
    void enter() { resting_.emplace(); }
    void exit(const nb::args&) {
        const ReleasedGil released;
        resting_.reset();
    }

private:
    std::optional<treadle::Resting> resting_;
};

PyTeam* make_team(std::string name, int intra_op, int inter_op, double spin_us) {
    return new PyTeam(std::move(name), {intra_op, inter_op}, to_spin(spin_us));
}

}  // namespace

void bind_team(nb::module_& m) {
    m.attr("DEFAULT_SPIN_US") = Microseconds(treadle::kDefaultSpin).count();
#if defined(__clang__)
    m.attr("COMPILER") = "Clang " __clang_version__;
#else
    m.attr("COMPILER") = "GCC " __VERSION__;
#endif
    m.attr("MAX_THREADS") = treadle::kMaxThreads;
    nb::class_<treadle::CancelToken>(m, "CancelToken", "Ends the runs that it was given to, later ones included.")
        .def(nb::init<>())
        .def("cancel", &treadle::CancelToken::cancel, nb::call_guard<ReleasedGil>(),
             "End the runs. Any thread may call this, at any time and more than once.")
        .def_prop_ro("cancelled", &treadle::CancelToken::cancelled);
    nb::class_<treadle::RunLimits>(m, "RunLimits", "Limits of all runs that refer to this object, those in progress included.")
        .def(nb::init<>())
        .def(
            "set", [](treadle::RunLimits& limits, int intra_op, int inter_op) { limits.set({intra_op, inter_op}); },
            nb::arg("intra_op"), nb::arg("inter_op"), nb::call_guard<ReleasedGil>(),
            "Change both limits from the next op boundary on; 0 leaves a limit unset. Any thread may call this at any time.")
        .def(
            "get",
            [](const treadle::RunLimits& limits) {
                const Limits now = limits.get();
                return std::pair(now.intra_op, now.inter_op);
            },
            "(intra_op, inter_op)");
    nb::class_<PyResting>(m, "Resting",
                          "A context in which a step waits for a run in another thread without keeping others from executing.")
        .def(nb::init<>())
        .def("__enter__", &PyResting::enter, nb::call_guard<ReleasedGil>())
        .def("__exit__", &PyResting::exit);
    nb::class_<PyTeam>(m, "Team",
                       "A team of threads: at most intra_op workers inside one op, at most inter_op ops in progress,\n"
                       "callers included. Threads start when they first pay.")
        .def(nb::new_(&make_team), nb::arg("name"), nb::arg("intra_op"), nb::arg("inter_op"),
             nb::arg("spin_us") = Microseconds(treadle::kDefaultSpin).count())
        .def(
            "set_limits", [](PyTeam& team, int intra_op, int inter_op) { team.set_limits({intra_op, inter_op}); },
            nb::arg("intra_op"), nb::arg("inter_op"), nb::call_guard<ReleasedGil>(),
            "Change both limits from the next op boundary on. Any thread may call this at any time.")
        .def_prop_ro(
            "limits",
            [](const PyTeam& team) {
                const Limits limits = team.limits();
                return std::pair(limits.intra_op, limits.inter_op);
            },
            "(intra_op, inter_op)")
        .def(
            "set_spin", [](PyTeam& team, double spin_us) { team.set_spin(to_spin(spin_us)); }, nb::arg("spin_us"),
            "Change how long idle workers spin before they park, in microseconds, at once.")
        .def_prop_ro("spin_us", [](const PyTeam& team) { return Microseconds(team.spin()).count(); })
        .def(
            "set_cpus", [](PyTeam& team, const std::vector<int>& cpus) { team.set_cpus(cpus); }, nb::arg("cpus"),
            nb::call_guard<ReleasedGil>(),
            "Pin worker i to cpus[i % len(cpus)], callers never; an empty list unpins.")
        .def_prop_ro("name", [](const PyTeam& team) { return team.name(); })
        .def_prop_ro("threads", [](PyTeam& team) { return team.threads(); }, nb::call_guard<ReleasedGil>(),
                     "How many threads the team has started that are alive.")
        .def("status", &status, "Return a snapshot of the team as a dict.")
        .def(
            "close", [](PyTeam& team) { team.close(); }, nb::call_guard<ReleasedGil>(),
            "Wait for runs in progress and join the threads; later runs raise RuntimeError.");
}
