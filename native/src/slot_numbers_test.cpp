#include "treadle/slot_numbers.h"

#include "treadle/check.h"

namespace treadle {

TREADLE_TEST(take_returns_the_preferred_or_the_lowest_free_slot) {
    SlotNumbers slots;
    CHECK_EQUAL(0, slots.take(0));
    CHECK_EQUAL(1, slots.take(0));
    CHECK_EQUAL(5, slots.take(5));
    CHECK_EQUAL(2, slots.take(1));
    slots.release(1);
    CHECK_EQUAL(3, slots.used());
    CHECK_EQUAL(1, slots.take(0));
}

TREADLE_TEST(there_may_be_more_slots_than_bits_in_a_word) {
    SlotNumbers slots;
    for (int i = 0; i < 200; ++i) CHECK_EQUAL(i, slots.take(0));
    slots.release(130);
    CHECK_EQUAL(130, slots.take(3));
    CHECK_EQUAL(200, slots.used());
}

}  // namespace treadle
