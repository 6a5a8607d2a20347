// Arenas: the memory for intermediate values that runs use one after another.
#pragma once

#include <cstddef>
#include <vector>

#include "treadle/memory.h"

namespace treadle {

// Arenas lends arenas to the runs of one program, or of all programs of a template. The caller of every function holds
// context_mutex().
class Arenas {
public:
    // With `shared`, sizes are rounded up by an eighth at most: programs for sizes that grow slowly then find an arena.
    explicit Arenas(bool shared) : shared_(shared) {}

    // take() returns an arena of at least `bytes`, that which was returned last if possible. If all idle arenas are too
    // small, the largest grows and the others are freed. Throws std::bad_alloc.
    Block take(std::size_t bytes);
    // put() takes an arena back. It cannot fail.
    void put(Block arena) noexcept;
    // drain() returns the idle arenas, for the caller to free without the lock.
    std::vector<Block> drain();
    // count() returns how many arenas exist, idle and lent.
    std::size_t count() const { return count_; }
    // allocations() returns how many times an arena has been allocated or has grown.
    std::size_t allocations() const { return allocations_; }

private:
    bool shared_;
    std::vector<Block> idle_;  // the one returned last is at the end; has capacity for all
    std::size_t count_ = 0;    // idle and lent
    std::size_t allocations_ = 0;
};

}  // namespace treadle
