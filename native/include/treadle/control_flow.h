// Branches: host steps that run programs of their own, their bodies, as parts of the run around them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "treadle/program.h"

namespace treadle {

// Body is a program that a step runs. Its bound addresses are those of the step's pointers that `operands` numbers.
struct Body {
    std::shared_ptr<Program> program;
    std::vector<std::size_t> operands;
};

// make_branch() returns a step that runs `yes` if the byte at its pointer number `condition` is not 0, else `no`.
HostCall make_branch(std::size_t condition, Body yes, Body no);

}  // namespace treadle
