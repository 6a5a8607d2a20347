// Chunks: the chunks of an op in progress, each drawn once.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace treadle {

// Chunks are cut into parts of neighbours, one for each worker that may come. A worker draws the part of its place first
// and then what is left of the others: so from op to op it meets the same rows of an image, which its own cache holds, and
// draws without waiting for a counter that another core has just changed. There may be more places than parts, where
// inter_op exceeds intra_op: then two workers can begin with one part.
//
// All is relaxed: which worker gets a chunk carries no data, and what the chunks read and wrote is ordered by the
// scheduler's lock on entering and leaving the op, as is reset(); where another runtime spreads an op, by its fork and join.
class Chunks {
public:
    static constexpr int kMaxParts = 16;
    static constexpr std::int64_t kNone = -1;

    // reset() makes `count` chunks for up to `workers` workers. Nobody may be drawing.
    void reset(std::int64_t count, std::int64_t workers) {
        count_ = count;
        parts_ = static_cast<int>(std::clamp<std::int64_t>(std::min(workers, count), 1, kMaxParts));
        for (int i = 0; i < parts_; ++i) {
            Part& part = part_[static_cast<std::size_t>(i)];
            part.next.store(count * i / parts_, std::memory_order_relaxed);
            part.end = count * (i + 1) / parts_;
        }
    }

    std::int64_t count() const { return count_; }

    // left() estimates how many have not been drawn yet.
    std::int64_t left() const {
        std::int64_t left = 0;
        for (int i = 0; i < parts_; ++i) left += std::max<std::int64_t>(part(i).end - part(i).reached(), 0);
        return left;
    }

    // Drawing is one worker's way through the parts: first that of its place, then those behind it.
    class Drawing {
    public:
        Drawing(Chunks& chunks, int slot) : chunks_(chunks), first_(std::max(slot, 0) % chunks.parts_) {}

        // draw() is the next chunk, or kNone when all have been drawn.
        std::int64_t draw() {
            for (; passed_ < chunks_.parts_; ++passed_) {
                Part& part = chunks_.part((first_ + passed_) % chunks_.parts_);
                if (part.reached() >= part.end) continue;  // leaves the line to who still draws from others
                const std::int64_t chunk = part.next.fetch_add(1, std::memory_order_relaxed);
                if (chunk < part.end) return chunk;
            }
            return kNone;
        }

    private:
        Chunks& chunks_;
        int first_;
        int passed_ = 0;
    };

private:
    struct alignas(64) Part {
        std::atomic<std::int64_t> next{0};  // partner: each other drawer's; relaxed, see above
        std::int64_t end = 0;

        std::int64_t reached() const { return next.load(std::memory_order_relaxed); }
    };

    Part& part(int i) { return part_[static_cast<std::size_t>(i)]; }
    const Part& part(int i) const { return part_[static_cast<std::size_t>(i)]; }

    std::int64_t count_ = 1;
    int parts_ = 1;
    std::array<Part, kMaxParts> part_;
};

}  // namespace treadle
