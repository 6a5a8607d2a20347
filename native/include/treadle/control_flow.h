// Branches and loops: host steps that run programs of their own, their bodies, as parts of the run around them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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

// LoopSpec describes a loop. The step's pointers are, in this order:
//   results: of the carried values, then the items of each stacked value, one after the other; the number of iterations
//     made (int64)
//   one spare buffer for each carried value
//   the limit (int64), if `has_limit`; the condition of the first iteration (byte), if `has_condition`
//   initial carried values, the items of each sliced value, captured values
// The body's bound addresses are those of
//   the number of the iteration (int64), carried values, an item of each sliced value, captured values
//   then what it writes: whether there is another iteration (byte), if `decides`; carried values, an item of each
//   stacked value
struct LoopSpec {
    std::shared_ptr<Program> body;
    bool has_limit = false;
    bool has_condition = false;
    bool decides = false;
    std::vector<std::int64_t> carried;  // bytes of each carried value
    std::vector<std::int64_t> stacked;  // bytes of an item of each stacked value
    std::vector<std::int64_t> sliced;   // bytes of an item of each sliced value
    std::size_t captured = 0;           // how many captured values there are
    std::int64_t most = -1;             // at most so many iterations; negative: any number
};

// make_loop() returns a step that runs the body again and again, until it has done so as often as the limit and `most`
// allow or a condition is 0. An iteration reads the carried values where the last one wrote them. Throws
// std::invalid_argument for a negative size.
HostCall make_loop(LoopSpec spec);

}  // namespace treadle
