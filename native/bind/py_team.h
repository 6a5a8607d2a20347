// Team as Python owns it.
#pragma once

#include <nanobind/nanobind.h>

#include "interpreter.h"
#include "treadle/team.h"

// A Team that may be dropped by a thread that holds the GIL, which its workers may be waiting for.
struct PyTeam : treadle::Team {
    using Team::Team;
    ~PyTeam() {
        if (PyGILState_Check() == 0) return;
        const ReleasedGil released;
        close();
    }
};
