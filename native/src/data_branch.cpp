#include "treadle/data_branch.h"

#include "treadle/loop_step.h"

namespace treadle {

void run_data_branch(const DataBranch& branch, DataStage& stage, std::span<const std::int64_t> args,
                     std::span<void* const> pointers) {
    Taken<void*> next(pointers);
    const auto outputs = next.next(stage.outputs());
    const bool taken = *static_cast<const std::uint8_t*>(next.one()) != 0;
    const auto captured = next.next(branch.captured);
    std::vector<SizedMemory> made(branch.results.size());
    std::vector<void*> addresses;
    for (SizedMemory& each : made) addresses.push_back(&each);
    (taken ? *branch.yes : *branch.no).run(args.subspan(branch.rest_sizes), captured, addresses);

    std::vector<std::int64_t> sizes(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(branch.rest_sizes));
    std::vector<void*> operands;
    for (std::size_t i = 0; i < made.size(); ++i) {
        check_shape(made[i].shape, branch.results[i]);
        push_told(sizes, branch.results[i], made[i].shape);
        operands.push_back(made[i].memory->data());
    }
    operands.insert(operands.end(), next.rest().begin(), next.rest().end());
    stage.run(sizes, operands, outputs);
}

}  // namespace treadle
