// The Team type that Python owns.
#pragma once

#include <nanobind/nanobind.h>

#include "interpreter.h"
#include "treadle/team.h"

// A Team whose destructor may be called with the GIL: it releases the GIL, for which the team's workers may wait.
struct PyTeam : treadle::Team {
    using Team::Team;
    ~PyTeam() {
        if (PyGILState_Check() == 0) return;
        const ReleasedGil released;
        close();
    }
};
