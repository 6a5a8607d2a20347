// Blocks of aligned memory: arenas of runs and scratch of workers.
#pragma once

#include <cstddef>

namespace treadle {

// Block owns `bytes` of memory aligned to 64 bytes. A large block is aligned to 2 MiB and offered to the kernel for
// huge pages. Its content is undefined. An empty block has data() == nullptr. Throws std::bad_alloc if memory is
// refused.
class Block {
public:
    Block() = default;
    explicit Block(std::size_t bytes);
    ~Block();
    Block(Block&& other) noexcept;
    Block& operator=(Block&& other) noexcept;
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;

    std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }

    // grow() makes the block at least `bytes` long. Its content is undefined and may lie elsewhere. A large block keeps
    // the pages that it has: the first use of each costs far more than later ones, because the kernel clears it. Throws
    // std::bad_alloc if memory is refused; the block is then empty or as before.
    void grow(std::size_t bytes);

private:
    bool extend(std::size_t bytes);

    std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t mapped_ = 0;  // length of the mapping; 0 if the block came from the heap
};

}  // namespace treadle
