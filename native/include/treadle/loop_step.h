// What the steps of control_flow.h, data_loop.h and data_branch.h share: how they take their pointers, bind items of
// arrays, and check the shapes that bodies give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "treadle/program.h"

namespace treadle {

// Taken hands out the elements of a list in their order.
template <typename T>
class Taken {
public:
    explicit Taken(std::span<const T> all) : rest_(all) {}

    std::span<const T> next(std::size_t count) {
        const auto taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }
    T one() { return next(1)[0]; }
    std::span<const T> rest() const { return rest_; }

private:
    std::span<const T> rest_;
};

// push_items() adds to `bound` item number `number` of each of `arrays`; an item of array i has `bytes[i]` bytes.
inline void push_items(std::vector<void*>& bound, std::span<void* const> arrays, std::span<const std::int64_t> bytes,
                       std::int64_t number) {
    for (std::size_t i = 0; i < arrays.size(); ++i) {
        bound.push_back(static_cast<std::byte*>(arrays[i]) + number * bytes[i]);
    }
}

// check_shape() throws StepFailure if `shape` has another rank than `expected`, or another size where that is not -1.
inline void check_shape(std::span<const std::int64_t> shape, std::span<const std::int64_t> expected) {
    if (shape.size() != expected.size()) throw StepFailure(kShapeDiffers);
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (expected[axis] >= 0 && shape[axis] != expected[axis]) throw StepFailure(kShapeDiffers);
    }
}

// push_told() adds to `sizes` those of `shape` where `expected` is -1.
inline void push_told(std::vector<std::int64_t>& sizes, std::span<const std::int64_t> expected,
                      std::span<const std::int64_t> shape) {
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        if (expected[axis] < 0) sizes.push_back(shape[axis]);
    }
}

}  // namespace treadle
