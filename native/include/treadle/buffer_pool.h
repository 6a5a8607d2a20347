// BufferPool: memory for results, reused when nothing refers to an earlier result any more.
#pragma once

#include <cstddef>
#include <list>
#include <map>
#include <memory>
#include <vector>

namespace treadle {

class BufferPool;

// FreeBuffer frees the memory of a buffer.
struct FreeBuffer {
    std::size_t mapped = 0;  // length of the mapping; 0 if the memory came from the heap
    void operator()(std::byte* memory) const;
};

// PooledBuffer is memory aligned to 64 bytes, and the pool that keeps it while it is idle. Large buffers are mappings of
// their own: where sizes vary, freed ones would leave gaps in the heap that stay resident.
struct PooledBuffer {
    std::unique_ptr<std::byte, FreeBuffer> memory;
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

// BufferPool leases buffers, of several equal ones that which was returned last. If the idle buffers of all pools of the
// process exceed `max_idle_bytes` when one is returned, those returned first are freed. Any thread may call its
// functions. In a child made by fork() the idle buffers belong to the child.
//
// A pool that is `shared` by the programs of a template leases the smallest idle buffer of at least the requested and at
// most twice that size. New buffers are larger than requested by a quarter at most, so that sizes that grow slowly find
// one. When it allocates one, it frees those returned first until it has no more idle bytes than it ever leased at once.
// Other pools lease buffers of exactly the requested size.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
public:
    static std::shared_ptr<BufferPool> make(std::size_t max_idle_bytes, bool shared);
    ~BufferPool();
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    // acquire() leases a buffer of at least `size` bytes with undefined content. If the system has no memory, it frees
    // the idle buffers of all pools and tries again. Throws std::bad_alloc if that fails too.
    Lease acquire(std::size_t size);
    // clear() frees the idle buffers of this pool.
    void clear();
    // allocations() returns how many buffers the pool has allocated since it was made.
    std::size_t allocations() const;

    // idle_bytes() returns the size of the idle buffers of all pools.
    static std::size_t idle_bytes();

private:
    friend class Lease;
    using Buffers = std::list<PooledBuffer>;

    BufferPool(std::size_t max_idle_bytes, bool shared) : max_idle_bytes_(max_idle_bytes), shared_(shared) {}
    void put_back(Buffers& buffer) noexcept;
    // The functions below need context_mutex(). find_idle() returns the idle buffers of one size that serve a request,
    // or null. drop() moves to `freed` an idle buffer that is the first of its size in this pool.
    std::vector<Buffers::iterator>* find_idle(std::size_t size);
    void drop(Buffers::iterator first, Buffers& freed);
    void drop_surplus(Buffers& freed);
    void forget_idle();

    const std::size_t max_idle_bytes_;
    const bool shared_;
    // By size, iterators into the list of all pools' idle buffers, in its order. context_mutex() guards all below.
    std::map<std::size_t, std::vector<Buffers::iterator>> idle_;
    std::size_t own_idle_bytes_ = 0;
    std::size_t leased_bytes_ = 0;
    std::size_t most_leased_bytes_ = 0;
    std::size_t allocations_ = 0;
};

}  // namespace treadle
