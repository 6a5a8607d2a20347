// BufferPool: memory for results, reused when nothing refers to an earlier result any more.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <list>
#include <memory>
#include <vector>

namespace treadle {

class BufferPool;

// PooledBuffer is memory aligned to 64 bytes, and the pool that keeps it while it is idle.
struct PooledBuffer {
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size = 0;
    BufferPool* pool = nullptr;
};

// Lease is the exclusive use of a buffer. Its destructor returns the buffer to the pool, or frees it if the pool has
// been destroyed. Any thread may destroy it; the destructor takes context_mutex().
class Lease {
public:
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    std::byte* data() const { return buffer_.front().memory.get(); }
    std::size_t size() const { return buffer_.front().size; }

private:
    friend class BufferPool;
    Lease(std::list<PooledBuffer> buffer, std::weak_ptr<BufferPool> pool)
        : buffer_(std::move(buffer)), pool_(std::move(pool)) {}

    // One buffer, or none once moved from. A list, so that the buffer moves to the pool's list without an allocation.
    std::list<PooledBuffer> buffer_;
    std::weak_ptr<BufferPool> pool_;
};

// BufferPool leases buffers of one size, the one returned last first. If the idle buffers of all pools of the process
// exceed `max_idle_bytes` when one is returned, those returned first are freed. Any thread may call its functions. In a
// child made by fork() the idle buffers belong to the child.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
public:
    static std::shared_ptr<BufferPool> make(std::size_t size, std::size_t max_idle_bytes);
    ~BufferPool();
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    // acquire() leases a buffer with undefined content. If the system has no memory, it frees the idle buffers of all
    // pools and tries again. Throws std::bad_alloc if that fails too.
    Lease acquire();
    // clear() frees the idle buffers of this pool.
    void clear();

    // idle_bytes() returns the size of the idle buffers of all pools.
    static std::size_t idle_bytes();

private:
    friend class Lease;
    BufferPool(std::size_t size, std::size_t max_idle_bytes) : size_(size), max_idle_bytes_(max_idle_bytes) {}
    void put_back(std::list<PooledBuffer>& buffer) noexcept;

    const std::size_t size_;
    const std::size_t max_idle_bytes_;
    // Iterators into the list of all pools' idle buffers, in its order. context_mutex() guards both.
    std::vector<std::list<PooledBuffer>::iterator> idle_;
};

}  // namespace treadle
