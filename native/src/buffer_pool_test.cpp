#include "treadle/buffer_pool.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "treadle/check.h"

namespace treadle {

namespace {

constexpr std::size_t kMost = std::size_t{64} << 20;

}  // namespace

TREADLE_TEST(a_pool_leases_the_buffer_returned_last) {
    const auto pool = BufferPool::make(kMost, false);
    std::optional<Lease> first(pool->acquire(1000));
    std::optional<Lease> second(pool->acquire(1000));
    std::byte* const one = first->data();
    std::byte* const other = second->data();
    CHECK(one != other);
    CHECK_EQUAL(1000u, first->size());
    CHECK_EQUAL(0u, reinterpret_cast<std::uintptr_t>(one) % 64);
    std::memset(one, 1, 1000);
    first.reset();
    second.reset();
    CHECK_EQUAL(2000u, BufferPool::idle_bytes());
    const Lease third = pool->acquire(1000);
    const Lease fourth = pool->acquire(1000);
    CHECK(third.data() == other);
    CHECK(fourth.data() == one);
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(a_moved_lease_returns_its_buffer_once) {
    const auto pool = BufferPool::make(kMost, false);
    {
        Lease lease = pool->acquire(64);
        const Lease moved = std::move(lease);
        CHECK_EQUAL(64u, moved.size());
    }
    CHECK_EQUAL(64u, BufferPool::idle_bytes());
    pool->clear();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(buffers_returned_first_to_any_pool_are_freed_first) {
    const auto small = BufferPool::make(1000, false);
    const auto large = BufferPool::make(1000, false);
    {
        const Lease a = small->acquire(100), b = small->acquire(100), c = large->acquire(400), d = large->acquire(400);
    }  // returned in the order d, c, b, a
    CHECK_EQUAL(1000u, BufferPool::idle_bytes());
    {
        const Lease again = large->acquire(400), more = large->acquire(400), third = large->acquire(400);
    }
    // Three buffers of 400 exceed the limit, so the small ones and the first of the three are freed.
    CHECK_EQUAL(800u, BufferPool::idle_bytes());
    large->clear();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(a_pool_frees_a_buffer_that_exceeds_the_idle_limit) {
    const auto pool = BufferPool::make(99, false);
    { const Lease lease = pool->acquire(100); }
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(a_lease_outlives_its_pool) {
    auto pool = BufferPool::make(kMost, false);
    { const Lease idle = pool->acquire(100); }
    std::optional<Lease> lease(pool->acquire(100));
    { const Lease second = pool->acquire(100); }
    pool.reset();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
    std::memset(lease->data(), 1, lease->size());
    lease.reset();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(a_failed_allocation_frees_the_idle_buffers_of_all_pools) {
    const auto other = BufferPool::make(kMost, false);
    { const Lease idle = other->acquire(100); }
    CHECK_EQUAL(100u, BufferPool::idle_bytes());
    const auto pool = BufferPool::make(kMost, false);
    CHECK_THROWS(std::bad_alloc, pool->acquire(SIZE_MAX - 5));
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
    const Lease again = other->acquire(100);
    std::memset(again.data(), 1, again.size());
}

TREADLE_TEST(a_pool_leases_buffers_of_exactly_the_requested_size) {
    const auto pool = BufferPool::make(kMost, false);
    { const Lease larger = pool->acquire(1001); }
    const Lease lease = pool->acquire(1000);
    CHECK_EQUAL(1000u, lease.size());
    CHECK_EQUAL(1001u, BufferPool::idle_bytes());
    CHECK_EQUAL(2u, pool->allocations());
}

TREADLE_TEST(a_shared_pool_leases_the_smallest_buffer_that_wastes_no_more_than_half) {
    const auto pool = BufferPool::make(kMost, true);
    { const Lease a = pool->acquire(4096), b = pool->acquire(7000), c = pool->acquire(1000); }
    CHECK_EQUAL(4096u + 7168u + 1024u, BufferPool::idle_bytes());
    CHECK_EQUAL(4096u, pool->acquire(2048).size());
    CHECK_EQUAL(7168u, pool->acquire(4097).size());
    CHECK_EQUAL(1024u, pool->acquire(512).size());
    CHECK_EQUAL(3u, pool->allocations());
    CHECK_EQUAL(1536u, pool->acquire(1500).size());
    CHECK_EQUAL(4u, pool->allocations());
}

TREADLE_TEST(large_buffers_are_aligned_and_can_be_written) {
    const auto pool = BufferPool::make(kMost, false);
    for (const std::size_t size : {(std::size_t{128} << 10) - 1, std::size_t{128} << 10, (std::size_t{8} << 20) + 1}) {
        const Lease lease = pool->acquire(size);
        CHECK_EQUAL(size, lease.size());
        CHECK_EQUAL(0u, reinterpret_cast<std::uintptr_t>(lease.data()) % 64);
        std::memset(lease.data(), 1, size);
    }
    pool->clear();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(requests_that_grow_slowly_share_buffers) {
    const auto pool = BufferPool::make(kMost, true);
    for (std::size_t size = 4096; size < 32768; size += 64) {
        const Lease lease = pool->acquire(size);
        CHECK(lease.size() >= size && lease.size() <= size + size / 4);
    }
    CHECK_EQUAL(13u, pool->allocations());  // four for each of three doublings, and the first
}

TREADLE_TEST(a_shared_pool_that_allocates_keeps_no_more_idle_bytes_than_were_leased_at_once) {
    const auto pool = BufferPool::make(kMost, true);
    const auto other = BufferPool::make(kMost, true);
    { const Lease idle = other->acquire(4096); }
    std::mt19937 random(0);
    for (int turn = 0; turn < 2000; ++turn) {
        const std::size_t before = pool->allocations();
        const Lease one = pool->acquire(1 + random() % 65536), two = pool->acquire(1 + random() % 65536);
        if (pool->allocations() > before) CHECK(BufferPool::idle_bytes() <= 4096 + 2 * 65536);
    }
    CHECK(pool->allocations() < 1000);  // of 4000 requests, of sizes that vary by a factor of 65536
    pool->clear();
    CHECK_EQUAL(4096u, BufferPool::idle_bytes());
}

namespace {

// Several threads lease, fill and return buffers of up to `range` more than 256 bytes.
void check_exclusive(bool shared, std::size_t range) {
    constexpr int kClients = 4;
    const auto pool = BufferPool::make(3 * 256, shared);
    std::atomic<int> wrong{0};
    std::vector<std::thread> clients;
    for (int number = 0; number < kClients; ++number) {
        clients.emplace_back([&pool, &wrong, range, number] {
            std::mt19937 random(static_cast<unsigned>(number));
            std::vector<std::pair<unsigned char, Lease>> held;
            for (int turn = 0; turn < 2000; ++turn) {
                const auto mark = static_cast<unsigned char>(number * 64 + turn % 64);
                held.emplace_back(mark, pool->acquire(256 + random() % (range + 1)));
                std::memset(held.back().second.data(), mark, held.back().second.size());
                if (turn % 97 == 0) pool->clear();
                if (held.size() < 1 + random() % 4) continue;
                for (const auto& [written, lease] : held) {
                    for (std::size_t i = 0; i < lease.size(); ++i) wrong += static_cast<unsigned char>(lease.data()[i]) != written;
                }
                held.clear();
            }
        });
    }
    for (std::thread& client : clients) client.join();
    CHECK_EQUAL(0, wrong.load());
    pool->clear();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

}  // namespace

TREADLE_TEST(no_buffer_is_leased_twice_at_the_same_time) {
    check_exclusive(false, 0);
    check_exclusive(true, 1024);
}

}  // namespace treadle
