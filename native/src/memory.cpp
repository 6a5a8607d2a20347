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

// Returns `bytes` of address space at a multiple of a huge page, or null. mmap() aligns to small pages only, so this maps
// one huge page more and unmaps both ends.
std::byte* map_aligned(std::size_t bytes, int protection) {
    if (bytes > SIZE_MAX - kHugePage) return nullptr;
    void* const raw = mmap(nullptr, bytes + kHugePage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return nullptr;
    auto* const start = static_cast<std::byte*>(raw);
    const std::size_t head = (kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage) % kHugePage;
    if (head > 0) munmap(start, head);
    if (head < kHugePage) munmap(start + head + bytes, kHugePage - head);
    return start + head;
}

}  // namespace

Block::Block(std::size_t bytes) : size_(bytes) {
    if (bytes == 0) return;
    if (bytes < kHugePage) {
        data_ = static_cast<std::byte*>(std::aligned_alloc(kAlignment, round_up(bytes, kAlignment)));
        if (data_ == nullptr) throw std::bad_alloc();
        return;
    }
    mapped_ = round_up(bytes, kHugePage);
    data_ = map_aligned(mapped_, PROT_READ | PROT_WRITE);
    if (data_ == nullptr) throw std::bad_alloc();
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

void Block::grow(std::size_t bytes) {
    if (bytes <= size_ || extend(bytes)) return;
    *this = Block();  // first, so that both never exist at once
    *this = Block(bytes);
}

#ifdef MREMAP_FIXED

// Returns false, and does nothing, if it has no mapping or the kernel refuses.
bool Block::extend(std::size_t bytes) {
    if (mapped_ == 0) return false;
    const std::size_t rounded = round_up(bytes, kHugePage);
    if (rounded > mapped_) {
        std::byte* const target = map_aligned(rounded, PROT_NONE);
        if (target == nullptr) return false;
        // Linux has unmapped `target` when it finds that it has no memory, and another thread may map something there.
        // So it is not unmapped here: what may be left is a range of addresses without memory.
        if (mremap(data_, mapped_, rounded, MREMAP_MAYMOVE | MREMAP_FIXED, target) == MAP_FAILED) return false;
        data_ = target;
        mapped_ = rounded;
    }
    size_ = bytes;
    return true;
}

#else

bool Block::extend(std::size_t) { return false; }

#endif

Block& Block::operator=(Block&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

}  // namespace treadle
