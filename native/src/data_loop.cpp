#include "treadle/data_loop.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "treadle/loop_step.h"
#include "treadle/team.h"
#include "treadle/worker.h"

namespace treadle {

namespace {

// Stack holds the items that iterations have given to one stacked value.
class Stack {
public:
    // append() adds the item in `item`, of `bytes`. Throws StepFailure if the last one had another shape, or this first one
    // has none that is `expected`.
    void append(const SizedMemory& item, const std::vector<std::int64_t>& expected, std::size_t bytes, BufferPool& pool) {
        if (memory_ && shape_ != item.shape) throw StepFailure(kItemsDiffer);
        if (!memory_) check_shape(item.shape, expected);
        shape_ = item.shape;
        if (!memory_ || memory_->size() < used_ + bytes) {
            Lease larger = pool.acquire(std::max<std::size_t>(2 * used_ + bytes, 1));
            if (used_ > 0) std::memcpy(larger.data(), memory_->data(), used_);
            memory_.emplace(std::move(larger));
        }
        std::memcpy(memory_->data() + used_, item.memory->data(), bytes);
        used_ += bytes;
    }

    bool is_empty() const { return !memory_; }
    void* data() const { return memory_->data(); }
    const std::vector<std::int64_t>& shape() const { return shape_; }

private:
    std::optional<Lease> memory_;
    std::size_t used_ = 0;
    std::vector<std::int64_t> shape_;
};

class DataLoopRun {
public:
    DataLoopRun(const DataLoop& loop, DataStage& stage, std::span<const std::int64_t> args,
                std::span<void* const> pointers)
        : loop_(loop), stage_(stage), stacks_(loop.stacked.size()) {
        Taken<std::int64_t> sizes(args);
        rest_sizes_ = sizes.next(loop.rest_sizes);
        const std::int64_t most = sizes.one();
        if (most >= 0) limit_ = most;
        item_bytes_ = sizes.next(loop.sliced);
        const auto known = sizes.next(loop.body_sizes);
        sizes_.assign(known.begin(), known.end());
        if (loop.is_counted) sizes_.push_back(0);
        first_dim_ = sizes_.size();
        std::vector<std::vector<std::int64_t>> initial_shapes;
        for (const auto& changes : loop.carried) {
            auto& shape = shapes_.emplace_back();
            auto& initial = initial_shapes.emplace_back();
            for (std::size_t axis = 0; axis < changes.size(); ++axis) {
                const std::int64_t dim = sizes.one();
                initial.push_back(dim);
                shape.push_back(changes[axis] ? -1 : dim);
                if (changes[axis]) sizes_.push_back(dim);
            }
        }
        Taken<void*> next(pointers);
        outputs_ = next.next(stage.outputs());
        if (loop.has_limit) limit_ = std::min(limit_, *static_cast<const std::int64_t*>(next.one()));
        if (loop.has_condition) goes_on_ = *static_cast<const std::uint8_t*>(next.one()) != 0;
        const auto initial = next.next(loop.carried.size());
        read_.assign(initial.begin(), initial.end());
        sliced_ = next.next(loop.sliced);
        captured_ = next.next(loop.captured);
        operands_ = next.rest();
        for (const auto& shape : initial_shapes) {
            kept_.push_back(std::make_unique<SizedMemory>());
            kept_.back()->shape = shape;
        }
        for (std::size_t i = 0; i < 1 + read_.size() + stacks_.size(); ++i) {
            made_.push_back(std::make_unique<SizedMemory>());
        }
    }

    ~DataLoopRun() {
        part_.reset();
        if (moving_) loop_.body->put_back(std::move(moving_));
    }
    DataLoopRun(const DataLoopRun&) = delete;
    DataLoopRun& operator=(const DataLoopRun&) = delete;

    void run() {
        for (; iteration_ < limit_ && goes_on_; ++iteration_) {
            check_run();
            bind();
            current_worker()->watch.maybe_check(binding_->program->cost_ns());
            run_body();
        }
        run_stage();
    }

private:
    // Binds the body to the sizes of this iteration. If they differ from the last ones, the same program is bound again
    // where that is possible.
    void bind() {
        if (loop_.is_counted) sizes_[loop_.body_sizes] = iteration_;
        if (binding_ != nullptr && bound_sizes_ == sizes_) {
            if (is_moved_ ? loop_.body->refresh(*moving_) : loop_.body->is_current(*kept_binding_)) return;
        }
        part_.reset();
        is_moved_ = binding_ != nullptr && loop_.body->move(moving_, sizes_);
        if (!is_moved_) kept_binding_ = loop_.body->bind(sizes_);
        binding_ = is_moved_ ? moving_->binding : kept_binding_.get();
        part_.emplace(*binding_->program);
        bound_sizes_ = sizes_;
    }

    bool is_appended(std::size_t carried) const { return !loop_.appended.empty() && loop_.appended[carried]; }

    // Makes room behind an appended value for what the body appends. The memory grows by doubling. If the body tells how
    // much it appends, place() makes room for that.
    void make_room(std::size_t carried) {
        SizedMemory& kept = *kept_[carried];
        const std::size_t output = 1 + carried;
        const auto& shape = binding_->shapes[output];
        const std::size_t used = loop_.body->bytes_of_output(output, kept.shape);
        const std::size_t bytes = shape ? loop_.body->bytes_of_output(output, *shape) : used;
        if (!kept.memory || kept.memory->size() < bytes) {
            Lease larger = loop_.body->pool().acquire(std::max<std::size_t>(2 * bytes, 1));
            if (used > 0) std::memcpy(larger.data(), read_[carried], used);
            kept.memory.emplace(std::move(larger));
            read_[carried] = kept.memory->data();
        }
        kept.former.reset();
        kept.kept_bytes = used;
        if (shape) kept.shape = *shape;
    }

    void run_body() {
        for (std::size_t i = 0; i < read_.size(); ++i) {
            if (is_appended(i)) make_room(i);
        }
        bound_.clear();
        bound_.push_back(&iteration_);
        bound_.insert(bound_.end(), read_.begin(), read_.end());
        push_items(bound_, sliced_, item_bytes_, iteration_);
        bound_.insert(bound_.end(), captured_.begin(), captured_.end());
        for (std::size_t i = 0; i < made_.size(); ++i) {
            if (i >= 1 && i <= read_.size() && is_appended(i - 1)) {
                const bool is_told = !binding_->shapes[i];
                bound_.push_back(is_told ? static_cast<void*>(kept_[i - 1].get()) : read_[i - 1]);
            } else {
                loop_.body->place(*binding_, i, *made_[i], bound_);
            }
        }
        part_->run(bound_, iteration_);
        goes_on_ = *reinterpret_cast<const std::uint8_t*>(made_[0]->memory->data()) != 0;
        std::size_t size = first_dim_;
        for (std::size_t i = 0; i < read_.size(); ++i) {
            // The next iteration reads this memory and writes that which this one has read.
            if (!is_appended(i)) std::swap(kept_[i], made_[1 + i]);
            read_[i] = kept_[i]->memory->data();
            check_shape(kept_[i]->shape, shapes_[i]);
            for (std::size_t axis = 0; axis < shapes_[i].size(); ++axis) {
                if (shapes_[i][axis] < 0) sizes_[size++] = kept_[i]->shape[axis];
            }
        }
        const std::size_t first = 1 + read_.size();
        for (std::size_t i = 0; i < stacks_.size(); ++i) {
            const SizedMemory& item = *made_[first + i];
            stacks_[i].append(item, loop_.stacked[i], loop_.body->bytes_of_output(first + i, item.shape), loop_.body->pool());
        }
    }

    void run_stage() {
        std::vector<std::int64_t> sizes(rest_sizes_.begin(), rest_sizes_.end());
        sizes.insert(sizes.end(), sizes_.begin() + static_cast<std::ptrdiff_t>(first_dim_), sizes_.end());
        sizes.push_back(iteration_);
        std::vector<void*> operands = read_;
        for (std::size_t i = 0; i < stacks_.size(); ++i) {
            push_told(sizes, loop_.stacked[i], item_shape(i));
            operands.push_back(stacks_[i].is_empty() ? &iteration_ : stacks_[i].data());
        }
        operands.push_back(&iteration_);
        operands.insert(operands.end(), operands_.begin(), operands_.end());
        stage_.run(sizes, operands, outputs_);
    }

    // Returns the shape of the items of a stacked value. Without iterations it is the one that the first item would have,
    // with sizes of 0 if only data tells it.
    std::vector<std::int64_t> item_shape(std::size_t stacked) {
        if (!stacks_[stacked].is_empty()) return stacks_[stacked].shape();
        std::vector<std::int64_t> expected = loop_.stacked[stacked];
        if (std::ranges::find(expected, -1) == expected.end()) return expected;
        bind();
        std::ranges::replace(expected, -1, 0);
        return binding_->shapes[1 + read_.size() + stacked].value_or(expected);
    }

    const DataLoop& loop_;
    DataStage& stage_;
    std::span<const std::int64_t> rest_sizes_;
    std::span<const std::int64_t> item_bytes_;
    std::span<void* const> outputs_;
    std::vector<void*> read_;  // the carried values
    std::span<void* const> sliced_;
    std::span<void* const> captured_;
    std::span<void* const> operands_;  // of the stage, behind the loop's results
    std::vector<Stack> stacks_;
    std::vector<std::unique_ptr<SizedMemory>> made_;  // what an iteration gives: the condition, carried values, items
    std::vector<std::unique_ptr<SizedMemory>> kept_;  // the carried values: their shapes, and what iterations gave
    std::vector<std::vector<std::int64_t>> shapes_;  // of the carried values; -1 for dimensions that change
    std::vector<std::int64_t> sizes_;        // of the body
    std::size_t first_dim_ = 0;              // which of them is the first dimension of a carried value
    std::vector<std::int64_t> bound_sizes_;  // those that `binding_` is for
    const DataStage::Binding* binding_ = nullptr;  // one of the next two; null before the first iteration
    std::shared_ptr<const DataStage::Binding> kept_binding_;
    std::unique_ptr<DataStage::Moving> moving_;
    bool is_moved_ = false;  // whether `binding_` is that of `moving_`
    std::optional<Part> part_;
    std::vector<void*> bound_;
    std::int64_t limit_ = std::numeric_limits<std::int64_t>::max();
    std::int64_t iteration_ = 0;
    bool goes_on_ = true;
};

}  // namespace

void run_data_loop(const DataLoop& loop, DataStage& stage, std::span<const std::int64_t> args,
                   std::span<void* const> pointers) {
    DataLoopRun(loop, stage, args, pointers).run();
}

}  // namespace treadle
