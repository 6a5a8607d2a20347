// Loops whose carried values change their sizes, or whose iterations nobody has counted: they run in front of a stage.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "treadle/data_stage.h"

namespace treadle {

// DataLoop describes a loop that a step runs before the stage behind it. Each iteration runs `body`, bound to the sizes
// that the carried values have then. Stacked values grow by doubling.
//
// The step's arguments are `rest_sizes` sizes of the stage, the most iterations (negative: any number), the bytes of an
// item of each sliced value, `body_sizes` sizes of the body, and the dimensions of the initial carried values.
// Its pointers, behind those of the outputs, are
//   the limit (int64), if `has_limit`; the condition of the first iteration (byte), if `has_condition`
//   initial carried values, sliced values, captured values
//   the operands of the stage but for results of the loop
// The sizes of the body are those known before, the number of the iteration if it `is_counted`, then the changing
// dimensions of each carried value. Its operands are the number of the iteration (int64), carried values, items of sliced
// values, captured values; its outputs whether there is another iteration (byte), carried values, an item of each stacked
// value.
// A carried value that is `appended` begins with what it was before. Its output lies where its operand lies, or in larger
// memory that begins with the same bytes, and the body leaves out what is there already.
// The stage's further sizes are the changing dimensions of the carried values, the number of iterations, and those
// dimensions of items that the loop tells; its first operands are the carried values, the stacked values and the number
// of iterations (int64).
struct DataLoop {
    std::shared_ptr<DataStage> body;
    bool has_limit = false;
    bool has_condition = false;
    bool is_counted = false;
    std::size_t rest_sizes = 0;
    std::size_t body_sizes = 0;
    std::vector<std::vector<bool>> carried;          // whether each dimension of each carried value changes
    std::vector<std::vector<std::int64_t>> stacked;  // the shape of each item; negative: the loop tells the size
    std::size_t sliced = 0;
    std::size_t captured = 0;
    std::vector<bool> appended;  // for each carried value; empty: none is
};

// run_data_loop() runs the loop, then `stage` on its results. Throws StepFailure if items have unequal shapes, or if a
// body changes a dimension that is not said to change.
void run_data_loop(const DataLoop& loop, DataStage& stage, std::span<const std::int64_t> args,
                   std::span<void* const> pointers);

}  // namespace treadle
