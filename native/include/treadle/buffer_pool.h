// Memory of results: lent while anybody refers to one, then kept for the results to come.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <list>
#include <memory>
#include <vector>

namespace treadle {

class BufferPool;

// PooledBuffer is memory of results, aligned to 64 bytes, and the shelf that it lies on while nobody uses it.
struct PooledBuffer {
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size = 0;
    BufferPool* pool = nullptr;
};

// Lease is the use of a piece. The piece goes back to the shelf when the loan ends, or to the system where the shelf has gone.
class Lease {
public:
    Lease(Lease&&) = default;
    Lease& operator=(Lease&&) = delete;
    ~Lease();

    std::byte* data() const { return buffer_.front().memory.get(); }
    std::size_t size() const { return buffer_.front().size; }

private:
    friend class BufferPool;
    Lease(std::list<PooledBuffer> buffer, std::weak_ptr<BufferPool> pool) : buffer_(std::move(buffer)), pool_(std::move(pool)) {}

    std::list<PooledBuffer> buffer_;  // one, or none once moved from: it changes lists without a call to the allocator
    std::weak_ptr<BufferPool> pool_;
};

// BufferPool lends pieces of one size; what came back last is lent first. A piece that comes back while more than `max_idle_bytes`
// bytes lie on all shelves of the process has those freed that came back first. Safe to use from any thread; what a child
// of fork() finds on a shelf is its own.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
public:
    static std::shared_ptr<BufferPool> make(std::size_t size, std::size_t max_idle_bytes);
    ~BufferPool();
    BufferPool(const BufferPool&) = delete;
    BufferPool& operator=(const BufferPool&) = delete;

    // lend() gives memory that nothing else refers to, of undefined content. Where the system has none it frees what lies on
    // all shelves and asks again; throws std::bad_alloc if there is none then.
    Lease acquire();
    // clear() frees what lies on the shelf.
    void clear();

    // idle_bytes() is how much lies on all shelves.
    static std::size_t idle_bytes();

private:
    friend class Lease;
    BufferPool(std::size_t size, std::size_t max_idle_bytes) : size_(size), max_idle_bytes_(max_idle_bytes) {}
    void put_back(std::list<PooledBuffer>& buffer) noexcept;

    const std::size_t size_;
    const std::size_t max_idle_bytes_;
    // Guarded by context_mutex(), as is the list of all idle pieces, into which these point in the same order.
    std::vector<std::list<PooledBuffer>::iterator> idle_;
};

}  // namespace treadle
