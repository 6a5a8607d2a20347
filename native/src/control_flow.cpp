#include "treadle/control_flow.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "treadle/loop_step.h"
#include "treadle/team.h"
#include "treadle/worker.h"

namespace treadle {

namespace {

// A value that a loop carries: read by the next iteration, and the two buffers that iterations write by turns.
struct Carried {
    void* read;
    void* write;
    void* spare;
};

class LoopRun {
public:
    LoopRun(const LoopSpec& spec, std::span<void* const> pointers) : spec_(spec), part_(*spec.body) {
        Taken<void*> next(pointers);
        results_ = next.next(spec.carried.size());
        stacked_ = next.next(spec.stacked.size());
        count_ = next.one();
        const auto spare = next.next(spec.carried.size());
        if (spec.most >= 0) limit_ = spec.most;
        if (spec.has_limit) limit_ = std::min(limit_, *static_cast<const std::int64_t*>(next.one()));
        if (spec.has_condition) goes_on_ = *static_cast<const std::uint8_t*>(next.one());
        const auto initial = next.next(spec.carried.size());
        sliced_ = next.next(spec.sliced.size());
        captured_ = next.next(spec.captured);
        // If the number of iterations is known, the last one writes the results.
        const bool spare_first = !spec.decides && limit_ % 2 == 0;
        for (std::size_t i = 0; i < spec.carried.size(); ++i) {
            carried_.push_back({initial[i], spare_first ? spare[i] : results_[i], spare_first ? results_[i] : spare[i]});
        }
    }

    void run() {
        const double body_ns = spec_.body->cost_ns();
        for (; iteration_ < limit_ && goes_on_ != 0; ++iteration_) {
            check_run();
            current_worker()->watch.maybe_check(body_ns);
            bind();
            part_.run(bound_, iteration_);
            for (Carried& each : carried_) {
                each.read = std::exchange(each.write, each.spare);
                each.spare = each.read;
            }
        }
        std::memcpy(count_, &iteration_, sizeof iteration_);
        for (std::size_t i = 0; i < carried_.size(); ++i) {
            if (carried_[i].read == results_[i]) continue;
            std::memcpy(results_[i], carried_[i].read, static_cast<std::size_t>(spec_.carried[i]));
        }
    }

private:
    void bind() {
        bound_.clear();
        bound_.push_back(&iteration_);
        for (const Carried& each : carried_) bound_.push_back(each.read);
        push_items(bound_, sliced_, spec_.sliced, iteration_);
        bound_.insert(bound_.end(), captured_.begin(), captured_.end());
        if (spec_.decides) bound_.push_back(&goes_on_);
        for (const Carried& each : carried_) bound_.push_back(each.write);
        push_items(bound_, stacked_, spec_.stacked, iteration_);
    }

    const LoopSpec& spec_;
    Part part_;
    std::span<void* const> results_;
    std::span<void* const> stacked_;
    std::span<void* const> sliced_;
    std::span<void* const> captured_;
    void* count_ = nullptr;
    std::vector<Carried> carried_;
    std::vector<void*> bound_;
    std::int64_t limit_ = std::numeric_limits<std::int64_t>::max();
    std::int64_t iteration_ = 0;
    std::uint8_t goes_on_ = 1;  // whether there is another iteration
};

}  // namespace

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

HostCall make_loop(LoopSpec spec) {
    const auto is_negative = [](std::int64_t bytes) { return bytes < 0; };
    if (std::ranges::any_of(spec.carried, is_negative) || std::ranges::any_of(spec.stacked, is_negative) ||
        std::ranges::any_of(spec.sliced, is_negative)) {
        throw std::invalid_argument("loop: sizes must not be negative");
    }
    return [spec = std::move(spec)](std::span<void* const> pointers) { LoopRun(spec, pointers).run(); };
}

}  // namespace treadle
