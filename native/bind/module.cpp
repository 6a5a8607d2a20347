// The weft._native module: what the core offers to Python. Knows nothing of ops.
#include <nanobind/nanobind.h>

#include "bind.h"
#include "weft/team.h"

namespace nb = nanobind;

NB_MODULE(_native, m) {
    m.doc() = "The native core of weft: a team of threads and the DAGs it runs.";
    bind_program(m);
    bind_team(m);
    bind_trace(m);
    // After this no worker is left, so none meets an interpreter that is going away.
    nb::module_::import_("atexit").attr("register")(nb::cpp_function([] {
        {
            const nb::gil_scoped_release released;
            weft::close_all_teams();
        }
        // Daemon threads are about to be abandoned with what they refer to: that is no leak of ours.
        const auto threads = nb::module_::import_("threading").attr("active_count")();
        if (nb::cast<int>(threads) > 1) nb::set_leak_warnings(false);
    }));
}
