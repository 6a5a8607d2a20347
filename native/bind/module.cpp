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
        std::size_t in_progress = 0;
        {
            const nb::gil_scoped_release released;
            in_progress = weft::close_all_teams();
        }
        // Daemon threads that were in a run are about to be abandoned, with what they refer to.
        if (in_progress > 0) nb::set_leak_warnings(false);
    }));
}
