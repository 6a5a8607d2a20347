#include "treadle/memory.h"

#if defined(__linux__)
#include <sys/resource.h>
#endif

#include <cstdint>
#include <cstring>
#include <utility>

#include "treadle/check.h"

namespace treadle {

TREADLE_TEST(blocks_are_aligned_and_writable_at_every_size) {
    for (const std::size_t bytes : {1ul, 63ul, 4096ul, (2ul << 20) - 1, 2ul << 20, (5ul << 20) + 3}) {
        Block block(bytes);
        CHECK_EQUAL(bytes, block.size());
        CHECK_EQUAL(0u, reinterpret_cast<std::uintptr_t>(block.data()) % 64);
        std::memset(block.data(), 1, bytes);
        Block other = std::move(block);
        CHECK(block.data() == nullptr);
        CHECK_EQUAL(bytes, other.size());
    }
    CHECK(Block(0).data() == nullptr);
}

TREADLE_TEST(blocks_grow_to_every_size_and_stay_aligned) {
    Block block;
    for (const std::size_t bytes : {0ul, 63ul, 64ul, 4096ul, (2ul << 20) - 1, 2ul << 20, (5ul << 20) + 3, (5ul << 20) + 4,
                                    24ul << 20}) {
        block.grow(bytes);
        CHECK_EQUAL(bytes, block.size());
        CHECK_EQUAL(0u, reinterpret_cast<std::uintptr_t>(block.data()) % (bytes < (2ul << 20) ? 64 : 2ul << 20));
        if (bytes > 0) std::memset(block.data(), 1, bytes);
    }
    block.grow(5);
    CHECK_EQUAL(24ul << 20, block.size());
}

// Sanitizers have pages of their own for each page, which are touched first too.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TREADLE_TEST(a_large_block_that_grows_keeps_its_pages) {
    constexpr std::size_t kHalf = std::size_t{8} << 20;
    const auto faults = [] {
        rusage usage{};
        getrusage(RUSAGE_THREAD, &usage);
        return usage.ru_minflt;
    };
    Block block(kHalf);
    std::memset(block.data(), 1, kHalf);
    block.grow(2 * kHalf);
    const auto before = faults();
    std::memset(block.data(), 2, kHalf);
    CHECK_EQUAL(before, faults());
    std::memset(block.data() + kHalf, 2, kHalf);
    CHECK(faults() > before);
}
#endif

TREADLE_TEST(a_block_that_cannot_grow_may_be_used_again) {
    Block block(std::size_t{2} << 20);
    for (const std::size_t refused : {SIZE_MAX - 5, std::size_t{1} << 60}) {
        CHECK_THROWS(std::bad_alloc, block.grow(refused));
        block.grow(std::size_t{3} << 20);
        std::memset(block.data(), 1, block.size());
    }
}

TREADLE_TEST(a_block_that_is_too_large_throws_bad_alloc) { CHECK_THROWS(std::bad_alloc, Block(SIZE_MAX - 5)); }

}  // namespace treadle
