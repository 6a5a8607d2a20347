#include "treadle/chunks.h"

#include <thread>
#include <vector>

#include "treadle/chaos.h"
#include "treadle/check.h"

namespace treadle {

namespace {

std::vector<std::int64_t> drawn_from(Chunks& chunks, int slot) {
    std::vector<std::int64_t> drawn;
    Chunks::Cursor cursor(chunks, slot);
    for (std::int64_t chunk = cursor.draw(); chunk != Chunks::kNone; chunk = cursor.draw()) drawn.push_back(chunk);
    return drawn;
}

}  // namespace

TREADLE_TEST(a_single_worker_draws_its_own_part_first) {
    Chunks chunks;
    chunks.reset(7, 3);
    CHECK((std::vector<std::int64_t>{2, 3, 4, 5, 6, 0, 1} == drawn_from(chunks, 1)));
    CHECK_EQUAL(0, chunks.left());
    CHECK(drawn_from(chunks, 0).empty());
}

TREADLE_TEST(any_slot_number_may_draw_all_chunks) {
    for (const int slot : {-3, 0, 2, 100}) {
        Chunks chunks;
        chunks.reset(5, 2);
        CHECK_EQUAL(5u, drawn_from(chunks, slot).size());
    }
}

TREADLE_TEST(workers_draw_from_separate_parts_while_these_last) {
    Chunks chunks;
    chunks.reset(8, 2);
    Chunks::Cursor front(chunks, 0);
    Chunks::Cursor back(chunks, 1);
    for (std::int64_t turn = 0; turn < 4; ++turn) {
        CHECK_EQUAL(8 - 2 * turn, chunks.left());
        CHECK_EQUAL(turn, front.draw());
        CHECK_EQUAL(4 + turn, back.draw());
    }
    CHECK_EQUAL(Chunks::kNone, front.draw());
    CHECK_EQUAL(Chunks::kNone, back.draw());
}

TREADLE_TEST(chunks_may_be_made_for_no_worker_or_for_more_than_the_parts) {
    for (const std::int64_t workers : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, std::int64_t{1} << 40}) {
        Chunks chunks;
        chunks.reset(3, workers);
        CHECK_EQUAL(3, chunks.left());
        CHECK_EQUAL(3u, drawn_from(chunks, 1).size());
    }
}

TREADLE_TEST(threads_that_share_all_parts_draw_each_chunk_once) {
    constexpr std::int64_t kCount = 20'000;
    constexpr int kThreads = 5;
    Chunks chunks;
    for (int round = 0; round < 3; ++round) {
        chunks.reset(kCount, 3);
        std::vector<std::vector<std::int64_t>> drawn(kThreads);
        std::vector<std::thread> threads;
        for (int slot = 0; slot < kThreads; ++slot) {
            threads.emplace_back([&chunks, &mine = drawn[static_cast<std::size_t>(slot)], slot] {
                chaos_point();
                mine = drawn_from(chunks, slot);
            });
        }
        for (std::thread& thread : threads) thread.join();
        std::vector<int> times(kCount);
        for (const auto& mine : drawn) {
            for (const std::int64_t chunk : mine) ++times[static_cast<std::size_t>(chunk)];
        }
        CHECK((times == std::vector<int>(kCount, 1)));
        CHECK_EQUAL(0, chunks.left());
    }
}

}  // namespace treadle
