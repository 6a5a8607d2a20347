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
    const auto pool = BufferPool::make(1000, kMost);
    std::optional<Lease> first(pool->acquire());
    std::optional<Lease> second(pool->acquire());
    std::byte* const one = first->data();
    std::byte* const other = second->data();
    CHECK(one != other);
    CHECK_EQUAL(1000u, first->size());
    CHECK_EQUAL(0u, reinterpret_cast<std::uintptr_t>(one) % 64);
    std::memset(one, 1, 1000);
    first.reset();
    second.reset();
    CHECK_EQUAL(2000u, BufferPool::idle_bytes());
    const Lease third = pool->acquire();
    const Lease fourth = pool->acquire();
    CHECK(third.data() == other);
    CHECK(fourth.data() == one);
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(a_moved_lease_returns_its_buffer_once) {
    const auto pool = BufferPool::make(64, kMost);
    {
        Lease lease = pool->acquire();
        const Lease moved = std::move(lease);
        CHECK_EQUAL(64u, moved.size());
    }
    CHECK_EQUAL(64u, BufferPool::idle_bytes());
    pool->clear();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(buffers_returned_first_to_any_pool_are_freed_first) {
    const auto small = BufferPool::make(100, 1000);
    const auto large = BufferPool::make(400, 1000);
    {
        const Lease a = small->acquire(), b = small->acquire(), c = large->acquire(), d = large->acquire();
    }  // returned in the order d, c, b, a
    CHECK_EQUAL(1000u, BufferPool::idle_bytes());
    {
        const Lease again = large->acquire(), more = large->acquire(), third = large->acquire();
    }
    // Three buffers of 400 exceed the limit, so the small ones and the first of the three are freed.
    CHECK_EQUAL(800u, BufferPool::idle_bytes());
    large->clear();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(a_pool_frees_a_buffer_that_exceeds_the_idle_limit) {
    const auto pool = BufferPool::make(100, 99);
    { const Lease lease = pool->acquire(); }
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(a_lease_outlives_its_pool) {
    auto pool = BufferPool::make(100, kMost);
    { const Lease idle = pool->acquire(); }
    std::optional<Lease> lease(pool->acquire());
    { const Lease second = pool->acquire(); }
    pool.reset();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
    std::memset(lease->data(), 1, lease->size());
    lease.reset();
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
}

TREADLE_TEST(a_failed_allocation_frees_the_idle_buffers_of_all_pools) {
    const auto other = BufferPool::make(100, kMost);
    { const Lease idle = other->acquire(); }
    CHECK_EQUAL(100u, BufferPool::idle_bytes());
    const auto pool = BufferPool::make(SIZE_MAX - 5, kMost);
    CHECK_THROWS(std::bad_alloc, pool->acquire());
    CHECK_EQUAL(0u, BufferPool::idle_bytes());
    const Lease again = other->acquire();
    std::memset(again.data(), 1, again.size());
}

TREADLE_TEST(no_buffer_is_leased_twice_at_the_same_time) {
    constexpr int kClients = 4;
    const auto pool = BufferPool::make(256, 3 * 256);
    std::atomic<int> wrong{0};
    std::vector<std::thread> clients;
    for (int number = 0; number < kClients; ++number) {
        clients.emplace_back([&pool, &wrong, number] {
            std::mt19937 random(static_cast<unsigned>(number));
            std::vector<std::pair<unsigned char, Lease>> held;
            for (int turn = 0; turn < 2000; ++turn) {
                const auto mark = static_cast<unsigned char>(number * 64 + turn % 64);
                held.emplace_back(mark, pool->acquire());
                std::memset(held.back().second.data(), mark, 256);
                if (turn % 97 == 0) pool->clear();
                if (held.size() < 1 + random() % 4) continue;
                for (const auto& [written, lease] : held) {
                    for (std::size_t i = 0; i < 256; ++i) wrong += static_cast<unsigned char>(lease.data()[i]) != written;
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

}  // namespace treadle
