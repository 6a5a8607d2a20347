#include "treadle/places.h"

#include "treadle/check.h"

namespace treadle {

TREADLE_TEST(places_are_handed_out_lowest_first_unless_preferred) {
    Places places;
    CHECK_EQUAL(0, places.take(0));
    CHECK_EQUAL(1, places.take(0));
    CHECK_EQUAL(5, places.take(5));
    CHECK_EQUAL(2, places.take(1));
    places.give_back(1);
    CHECK_EQUAL(3, places.used());
    CHECK_EQUAL(1, places.take(0));
}

TREADLE_TEST(places_go_beyond_one_word) {
    Places places;
    for (int i = 0; i < 200; ++i) CHECK_EQUAL(i, places.take(0));
    places.give_back(130);
    CHECK_EQUAL(130, places.take(3));
    CHECK_EQUAL(200, places.used());
}

}  // namespace treadle
