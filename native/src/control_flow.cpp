#include "treadle/control_flow.h"

#include <cstdint>
#include <span>
#include <utility>

#include "treadle/team.h"

namespace treadle {

HostCall make_branch(std::size_t condition, Body yes, Body no) {
    return [condition, yes = std::move(yes), no = std::move(no)](std::span<void* const> pointers) {
        const bool taken = *static_cast<const std::uint8_t*>(pointers[condition]) != 0;
        const Body& body = taken ? yes : no;
        std::vector<void*> bound;
        bound.reserve(body.operands.size());
        for (const std::size_t operand : body.operands) bound.push_back(pointers[operand]);
        Part(*body.program).run(bound);
    };
}

}  // namespace treadle
