// Branches the sizes of whose results depend on the body that is taken: they run in front of a stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "treadle/data_stage.h"

namespace treadle {

// DataBranch describes a branch that a step runs before the stage behind it: `yes` if a condition holds, else `no`.
//
// The step's arguments are `rest_sizes` sizes of the stage, then the sizes of both bodies.
// Its pointers, behind those of the outputs, are
//   the condition (byte), captured values
//   the operands of the stage but for results of the branch
// The operands of the bodies are the captured values. The stage's further sizes are those dimensions of the results that
// the branch tells; its first operands are the results.
struct DataBranch {
    std::shared_ptr<DataStage> yes;
    std::shared_ptr<DataStage> no;
    std::size_t rest_sizes = 0;
    std::vector<std::vector<std::int64_t>> results;  // the shape of each result; -1: the branch tells the size
    std::size_t captured = 0;
};

// run_data_branch() runs a body, then `stage` on its results. Throws StepFailure if a result has another shape.
void run_data_branch(const DataBranch& branch, DataStage& stage, std::span<const std::int64_t> args,
                     std::span<void* const> pointers);

}  // namespace treadle
