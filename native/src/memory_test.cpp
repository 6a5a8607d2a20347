#include "treadle/memory.h"

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

TREADLE_TEST(a_block_that_is_too_large_throws_bad_alloc) { CHECK_THROWS(std::bad_alloc, Block(SIZE_MAX - 5)); }

}  // namespace treadle
