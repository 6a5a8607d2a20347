// Places of a team: small numbers of which each runnable worker holds one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace treadle {

// Places hands out numbers, lowest free first. Guarded by the scheduler's lock.
class Places {
public:
    // used() is how many are taken.
    int used() const { return used_; }

    // take() takes `preferred` if it is free, else the lowest free number.
    int take(int preferred) {
        ++used_;
        if (is_free(preferred)) return mark(preferred);
        for (std::size_t w = 0; w < words_.size(); ++w) {
            if (~words_[w] != 0) return mark(static_cast<int>(w) * 64 + std::countr_one(words_[w]));
        }
        return mark(static_cast<int>(words_.size()) * 64);
    }

    void give_back(int place) {
        --used_;
        const auto p = static_cast<std::size_t>(place);
        words_[p / 64] &= ~(std::uint64_t{1} << (p % 64));
    }

private:
    bool is_free(int place) const {
        const auto p = static_cast<std::size_t>(place);
        return p / 64 >= words_.size() || (words_[p / 64] >> (p % 64) & 1) == 0;
    }

    int mark(int place) {
        const auto p = static_cast<std::size_t>(place);
        if (p / 64 >= words_.size()) words_.resize(p / 64 + 1);
        words_[p / 64] |= std::uint64_t{1} << (p % 64);
        return place;
    }

    int used_ = 0;
    std::vector<std::uint64_t> words_;
};

}  // namespace treadle
