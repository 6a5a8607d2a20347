#include "treadle/arenas.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

namespace treadle {

namespace {

std::size_t round_up(std::size_t bytes) {
    const std::size_t unit = std::max<std::size_t>(std::bit_floor(bytes) / 8, 64);
    return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Block Arenas::take(std::size_t bytes) {
    const auto is_large = [&](const Block& arena) { return arena.size() >= bytes; };
    const auto large = std::find_if(idle_.rbegin(), idle_.rend(), is_large);
    if (large != idle_.rend()) {
        Block arena = std::move(*large);
        idle_.erase(std::next(large).base());
        return arena;
    }
    Block arena;
    const auto largest = std::ranges::max_element(idle_, {}, &Block::size);
    if (largest != idle_.end()) arena = std::move(*largest);
    count_ -= idle_.size();
    idle_.clear();
    idle_.reserve(count_ + 1);
    arena.grow(shared_ && bytes > 0 ? round_up(bytes) : bytes);
    ++count_;
    ++allocations_;
    return arena;
}

void Arenas::put(Block arena) noexcept { idle_.push_back(std::move(arena)); }

std::vector<Block> Arenas::drain() {
    // Moved one by one, so that the list keeps its capacity for the arenas that are lent.
    std::vector<Block> drained(std::make_move_iterator(idle_.begin()), std::make_move_iterator(idle_.end()));
    idle_.clear();
    count_ -= drained.size();
    return drained;
}

}  // namespace treadle
