#include "treadle/buffer_pool.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "treadle/fork.h"

namespace treadle {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
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

std::byte* allocate(std::size_t size) {
    if (size > SIZE_MAX - kAlignment) return nullptr;
    const std::size_t whole = (size + kAlignment - 1) / kAlignment * kAlignment;
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
#ifdef MADV_HUGEPAGE
    if (memory != nullptr && whole >= kWorthHugePages) {
        const std::size_t before = (kPage - reinterpret_cast<std::uintptr_t>(memory) % kPage) % kPage;
        madvise(memory + before, whole - before, MADV_HUGEPAGE);  // advice: if it is refused, only speed changes
    }
#endif
    return memory;
}

}  // namespace

Lease::~Lease() {
    if (buffer_.empty()) return;
    if (const std::shared_ptr<BufferPool> pool = pool_.lock()) pool->put_back(buffer_);
}

std::shared_ptr<BufferPool> BufferPool::make(std::size_t size, std::size_t max_idle_bytes) {
    return std::shared_ptr<BufferPool>(new BufferPool(size, max_idle_bytes));
}

BufferPool::~BufferPool() { clear(); }

Lease BufferPool::acquire() {
    std::list<PooledBuffer> buffer;
    {
        const std::lock_guard lock(context_mutex());
        if (!idle_.empty()) {
            buffer.splice(buffer.begin(), idle().buffers, idle_.back());
            idle_.pop_back();
            idle().bytes -= size_;
        }
    }
    if (buffer.empty()) {
        buffer.push_back({decltype(PooledBuffer::memory)(allocate(size_)), size_, this});
        if (!buffer.front().memory) {
            std::list<PooledBuffer> freed;
            {
                const std::lock_guard lock(context_mutex());
                for (const PooledBuffer& each : idle().buffers) each.pool->idle_.clear();
                freed.swap(idle().buffers);
                idle().bytes = 0;
            }
            freed.clear();
            buffer.front().memory.reset(allocate(size_));
        }
        if (!buffer.front().memory) throw std::bad_alloc();
    }
    return Lease(std::move(buffer), weak_from_this());
}

void BufferPool::clear() {
    std::list<PooledBuffer> freed;  // declared first, so destroyed after the lock is released
    const std::lock_guard lock(context_mutex());
    for (const auto& each : idle_) freed.splice(freed.end(), idle().buffers, each);
    idle().bytes -= size_ * idle_.size();
    idle_.clear();
}

void BufferPool::put_back(std::list<PooledBuffer>& buffer) noexcept {
    std::list<PooledBuffer> freed;
    const std::lock_guard lock(context_mutex());
    try {
        idle_.push_back(buffer.begin());
    } catch (const std::bad_alloc&) {
        return;  // the caller frees the buffer
    }
    Idle& all = idle();
    all.buffers.splice(all.buffers.end(), buffer);
    all.bytes += size_;
    while (all.bytes > max_idle_bytes_) {
        PooledBuffer& first = all.buffers.front();
        first.pool->idle_.erase(first.pool->idle_.begin());
        all.bytes -= first.size;
        freed.splice(freed.end(), all.buffers, all.buffers.begin());
    }
}

std::size_t BufferPool::idle_bytes() {
    const std::lock_guard lock(context_mutex());
    return idle().bytes;
}

}  // namespace treadle
