#include "treadle/shelf.h"

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

TREADLE_TEST(a_shelf_lends_what_came_back_last) {
    const auto shelf = Shelf::make(1000, kMost);
    std::optional<Loan> first(shelf->lend());
    std::optional<Loan> second(shelf->lend());
    std::byte* const one = first->data();
    std::byte* const other = second->data();
    CHECK(one != other);
    CHECK_EQUAL(1000u, first->size());
    CHECK_EQUAL(0u, reinterpret_cast<std::uintptr_t>(one) % 64);
    std::memset(one, 1, 1000);
    first.reset();
    second.reset();
    CHECK_EQUAL(2000u, Shelf::idle_bytes());
    const Loan third = shelf->lend();
    const Loan fourth = shelf->lend();
    CHECK(third.data() == other);
    CHECK(fourth.data() == one);
    CHECK_EQUAL(0u, Shelf::idle_bytes());
}

TREADLE_TEST(a_loan_that_was_moved_comes_back_once) {
    const auto shelf = Shelf::make(64, kMost);
    {
        Loan loan = shelf->lend();
        const Loan moved = std::move(loan);
        CHECK_EQUAL(64u, moved.size());
    }
    CHECK_EQUAL(64u, Shelf::idle_bytes());
    shelf->clear();
    CHECK_EQUAL(0u, Shelf::idle_bytes());
}

TREADLE_TEST(what_came_back_first_to_any_shelf_is_freed_first) {
    const auto small = Shelf::make(100, 1000);
    const auto large = Shelf::make(400, 1000);
    {
        const Loan a = small->lend(), b = small->lend(), c = large->lend(), d = large->lend();
    }  // d, c, b, a
    CHECK_EQUAL(1000u, Shelf::idle_bytes());
    {
        const Loan again = large->lend(), more = large->lend(), third = large->lend();
    }
    // Three of 400 leave no room for the small ones, nor for the first of the three.
    CHECK_EQUAL(800u, Shelf::idle_bytes());
    large->clear();
    CHECK_EQUAL(0u, Shelf::idle_bytes());
}

TREADLE_TEST(a_shelf_without_room_keeps_nothing) {
    const auto shelf = Shelf::make(100, 99);
    { const Loan loan = shelf->lend(); }
    CHECK_EQUAL(0u, Shelf::idle_bytes());
}

TREADLE_TEST(memory_outlives_the_shelf_it_was_lent_from) {
    auto shelf = Shelf::make(100, kMost);
    { const Loan idle = shelf->lend(); }
    std::optional<Loan> loan(shelf->lend());
    { const Loan second = shelf->lend(); }
    shelf.reset();
    CHECK_EQUAL(0u, Shelf::idle_bytes());
    std::memset(loan->data(), 1, loan->size());
    loan.reset();
    CHECK_EQUAL(0u, Shelf::idle_bytes());
}

TREADLE_TEST(a_shelf_that_gets_no_memory_has_all_shelves_freed_first) {
    const auto other = Shelf::make(100, kMost);
    { const Loan idle = other->lend(); }
    CHECK_EQUAL(100u, Shelf::idle_bytes());
    const auto shelf = Shelf::make(SIZE_MAX - 5, kMost);
    CHECK_THROWS(std::bad_alloc, shelf->lend());
    CHECK_EQUAL(0u, Shelf::idle_bytes());
    const Loan again = other->lend();
    std::memset(again.data(), 1, again.size());
}

TREADLE_TEST(no_piece_is_lent_twice_at_a_time) {
    constexpr int kClients = 4;
    const auto shelf = Shelf::make(256, 3 * 256);
    std::atomic<int> wrong{0};
    std::vector<std::thread> clients;
    for (int number = 0; number < kClients; ++number) {
        clients.emplace_back([&shelf, &wrong, number] {
            std::mt19937 random(static_cast<unsigned>(number));
            std::vector<std::pair<unsigned char, Loan>> held;
            for (int turn = 0; turn < 2000; ++turn) {
                const auto mark = static_cast<unsigned char>(number * 64 + turn % 64);
                held.emplace_back(mark, shelf->lend());
                std::memset(held.back().second.data(), mark, 256);
                if (turn % 97 == 0) shelf->clear();
                if (held.size() < 1 + random() % 4) continue;
                for (const auto& [written, loan] : held) {
                    for (std::size_t i = 0; i < 256; ++i) wrong += static_cast<unsigned char>(loan.data()[i]) != written;
                }
                held.clear();
            }
        });
    }
    for (std::thread& client : clients) client.join();
    CHECK_EQUAL(0, wrong.load());
    shelf->clear();
    CHECK_EQUAL(0u, Shelf::idle_bytes());
}

}  // namespace treadle
