#include "treadle/buffer_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

#include "treadle/fork.h"

namespace treadle {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMapped = std::size_t{128} << 10;  // from here on the C library maps buffers too, at first
constexpr std::size_t kWorthHugePages = std::size_t{4} << 20;

// The idle buffers of all pools, the one returned first in front.
struct Idle {
    std::list<PooledBuffer> buffers;
    std::size_t bytes = 0;
};

Idle& idle() {
    static Idle* const all = new Idle;  // never destroyed: results may outlive static objects
    return *all;
}

using Memory = std::unique_ptr<std::byte, FreeBuffer>;

// Returns an empty pointer if there is no memory.
Memory allocate(std::size_t size) {
    const std::size_t unit = size < kMapped ? kAlignment : kPage;
    if (size > SIZE_MAX - unit) return {};
    const std::size_t whole = (size + unit - 1) / unit * unit;
    if (whole < kMapped) return Memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)));
    void* const memory = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return {};
#ifdef MADV_HUGEPAGE
    if (whole >= kWorthHugePages) madvise(memory, whole, MADV_HUGEPAGE);  // advice: if it is refused, only speed changes
#endif
    return Memory(static_cast<std::byte*>(memory), FreeBuffer{whole});
}

// Returns the size of a new buffer of a shared pool: 4, 5, 6 or 7 times a power of two.
std::size_t round_up(std::size_t size) {
    const std::size_t unit = std::max(std::bit_floor(size) / 4, kAlignment);
    return size > SIZE_MAX - unit ? size : (size + unit - 1) / unit * unit;
}

}  // namespace

void FreeBuffer::operator()(std::byte* memory) const {
    if (mapped > 0) {
        munmap(memory, mapped);
    } else {
        std::free(memory);
    }
}

Lease::~Lease() {
    if (buffer_.empty()) return;
    if (const std::shared_ptr<BufferPool> pool = pool_.lock()) pool->put_back(buffer_);
}

std::shared_ptr<BufferPool> BufferPool::make(std::size_t max_idle_bytes, bool shared) {
    return std::shared_ptr<BufferPool>(new BufferPool(max_idle_bytes, shared));
}

BufferPool::~BufferPool() { clear(); }

Lease BufferPool::acquire(std::size_t size) {
    Buffers buffer;
    {
        const std::lock_guard lock(context_mutex());
        if (std::vector<Buffers::iterator>* const fitting = find_idle(size)) {
            buffer.splice(buffer.begin(), idle().buffers, fitting->back());
            fitting->pop_back();
            idle().bytes -= buffer.front().size;
            own_idle_bytes_ -= buffer.front().size;
            leased_bytes_ += buffer.front().size;
        }
    }
    if (!buffer.empty()) return Lease(std::move(buffer), weak_from_this());

    const std::size_t rounded = shared_ ? round_up(size) : size;
    buffer.push_back({allocate(rounded), rounded, this});
    Buffers freed;  // destroyed after the lock is released
    if (!buffer.front().memory) {
        {
            const std::lock_guard lock(context_mutex());
            for (const PooledBuffer& each : idle().buffers) each.pool->forget_idle();
            freed.swap(idle().buffers);
            idle().bytes = 0;
        }
        freed.clear();
        buffer.front().memory = allocate(rounded);
    }
    if (!buffer.front().memory) throw std::bad_alloc();
    {
        const std::lock_guard lock(context_mutex());
        ++allocations_;
        leased_bytes_ += rounded;
        most_leased_bytes_ = std::max(most_leased_bytes_, leased_bytes_);
        if (shared_) drop_surplus(freed);
    }
    return Lease(std::move(buffer), weak_from_this());
}

std::vector<BufferPool::Buffers::iterator>* BufferPool::find_idle(std::size_t size) {
    for (auto each = idle_.lower_bound(size); each != idle_.end(); ++each) {
        if (shared_ ? each->first / 2 > size : each->first != size) break;
        if (!each->second.empty()) return &each->second;
    }
    return nullptr;
}

void BufferPool::drop(Buffers::iterator first, Buffers& freed) {
    std::vector<Buffers::iterator>& own = idle_.find(first->size)->second;
    own.erase(own.begin());
    own_idle_bytes_ -= first->size;
    idle().bytes -= first->size;
    freed.splice(freed.end(), idle().buffers, first);
}

void BufferPool::drop_surplus(Buffers& freed) {
    Buffers& all = idle().buffers;
    for (auto each = all.begin(); own_idle_bytes_ > most_leased_bytes_;) {
        const auto next = std::next(each);
        if (each->pool == this) drop(each, freed);
        each = next;
    }
}

void BufferPool::forget_idle() {
    idle_.clear();
    own_idle_bytes_ = 0;
}

void BufferPool::clear() {
    Buffers freed;  // declared first, so destroyed after the lock is released
    const std::lock_guard lock(context_mutex());
    for (const auto& [size, buffers] : idle_) {
        for (const auto& each : buffers) freed.splice(freed.end(), idle().buffers, each);
    }
    idle().bytes -= own_idle_bytes_;
    forget_idle();
}

void BufferPool::put_back(Buffers& buffer) noexcept {
    Buffers freed;
    const std::lock_guard lock(context_mutex());
    const std::size_t size = buffer.front().size;
    leased_bytes_ -= size;
    try {
        idle_[size].push_back(buffer.begin());
    } catch (const std::bad_alloc&) {
        return;  // the caller frees the buffer
    }
    Idle& all = idle();
    all.buffers.splice(all.buffers.end(), buffer);
    all.bytes += size;
    own_idle_bytes_ += size;
    while (all.bytes > max_idle_bytes_) all.buffers.front().pool->drop(all.buffers.begin(), freed);
}

std::size_t BufferPool::allocations() const {
    const std::lock_guard lock(context_mutex());
    return allocations_;
}

std::size_t BufferPool::idle_bytes() {
    const std::lock_guard lock(context_mutex());
    return idle().bytes;
}

}  // namespace treadle
