// What the steps of control_flow.h and data_loop.h share: how they take their pointers, and bind items of arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

}  // namespace treadle
