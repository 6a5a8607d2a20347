#include "treadle/memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

namespace treadle {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t value, std::size_t unit) {
    if (value > SIZE_MAX - unit) throw std::bad_alloc();
    return (value + unit - 1) / unit * unit;
}

}  // namespace

Block::Block(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    if (bytes < kHugePage) {
        data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, round_up(bytes, kAlignment)));
        if (data_ == nullptr) throw std::bad_alloc();
        return;
    }
    // mmap() aligns to small pages only, so map one huge page more than needed and unmap both ends.
    const std::size_t rounded = round_up(bytes, kHugePage);
    if (rounded > SIZE_MAX - kHugePage) throw std::bad_alloc();
    const std::size_t taken = rounded + kHugePage;
    void* raw = mmap(nullptr, taken, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) throw std::bad_alloc();
    auto* start = static_cast<std::byte*>(raw);
    const std::size_t head = (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
    if (head > 0) munmap(start, head);
    if (head < kHugePage) munmap(start + head + rounded, kHugePage - head);
    data_ = start + head;
    mapped_ = rounded;
#ifdef MADV_HUGEPAGE
    madvise(data_, mapped_, MADV_HUGEPAGE);  // advice: if it is refused, only speed changes
#endif
}

Block::~Block() {
    if (mapped_ > 0) {
        munmap(data_, mapped_);
    } else {
        std::free(data_);
    }
}

Block::Block(Block&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Block& Block::operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

}  // namespace treadle
