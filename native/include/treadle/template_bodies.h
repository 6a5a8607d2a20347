// Branches, loops and stages as steps of a template: they are made when it is bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "treadle/program_template.h"

namespace treadle {

// MakeHost makes the call of a step without a kernel from the step's arguments. Throws BindingFailure if a body does not
// serve the sizes.
using MakeHost = std::function<HostCall(std::vector<std::int64_t> args)>;

// make_hosts() returns the calls of the steps of `made_by` without a kernel, in their order; `makers` has one for each.
std::vector<HostCall> make_hosts(const ProgramTemplate& made_by, const ProgramTemplate::Sizes& sizes,
                                 std::span<const MakeHost> makers);

// TemplateBody is a body of a branch or loop with open sizes. `hosts` are as in make_hosts(), `max_workers` as in
// ProgramTemplate::bind().
struct TemplateBody {
    std::shared_ptr<const ProgramTemplate> program_template;
    std::vector<int> max_workers;
    std::vector<MakeHost> hosts;

    // bind() returns the program for the symbols' values.
    std::shared_ptr<Program> bind(std::span<const std::int64_t> symbols) const;
};

// branch_maker() makes branches: `operands` are as in Body. The arguments of the step are the values of the `symbols`
// symbols of the bodies.
MakeHost branch_maker(std::size_t symbols, std::size_t condition, std::vector<std::size_t> operands, TemplateBody yes,
                      TemplateBody no);

// LoopCounts are those members of LoopSpec that do not depend on sizes; `carried` and the next two say how many there are.
struct LoopCounts {
    bool has_limit = false;
    bool has_condition = false;
    bool decides = false;
    std::size_t carried = 0;
    std::size_t stacked = 0;
    std::size_t sliced = 0;
    std::size_t captured = 0;
};

// loop_maker() makes loops. The arguments of the step are the values of the `symbols` symbols of the body, then the most
// iterations and bytes: of each carried value, of an item of each stacked and of each sliced value.
MakeHost loop_maker(std::size_t symbols, LoopCounts counts, TemplateBody body);

}  // namespace treadle
