// Numbers of slots: small ones, of which each runnable worker holds one.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace treadle {

// SlotNumbers hands out numbers from 0. The scheduler's lock guards it.
class SlotNumbers {
public:
    // used() returns how many are taken.
    int used() const { return used_; }

    // take() returns `preferred` if it is free, else the lowest free number.
    int take(int preferred) {
        ++used_;
        if (is_free(preferred)) return mark(preferred);
        for (std::size_t w = 0; w < words_.size(); ++w) {
            if (~words_[w] != 0) return mark(static_cast<int>(w) * 64 + std::countr_one(words_[w]));
        }
        return mark(static_cast<int>(words_.size()) * 64);
    }

    // release() frees a number that was taken.
    void release(int slot) {
        --used_;
        const auto s = static_cast<std::size_t>(slot);
        words_[s / 64] &= ~(std::uint64_t{1} << (s % 64));
    }

private:
    bool is_free(int slot) const {
        const auto s = static_cast<std::size_t>(slot);
        return s / 64 >= words_.size() || (words_[s / 64] >> (s % 64) & 1) == 0;
    }

    int mark(int slot) {
        const auto s = static_cast<std::size_t>(slot);
        if (s / 64 >= words_.size()) words_.resize(s / 64 + 1);
        words_[s / 64] |= std::uint64_t{1} << (s % 64);
        return slot;
    }

    int used_ = 0;
    std::vector<std::uint64_t> words_;  // a set bit is a taken number
};

}  // namespace treadle
