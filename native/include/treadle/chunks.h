// Chunks: the chunks of an op in progress, each of which is drawn once.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace treadle {

// Chunks divides the chunks of an op into parts of neighbouring chunks, one for each worker that may join. A worker
// first draws from the part of its slot, and then from what is left of the other parts. So from op to op it computes
// the same rows of an image, which are in its core's cache, and it draws without waiting for a counter that another
// core has just changed. If inter_op exceeds intra_op there may be more slots than parts; then two workers may begin
// with the same part.
//
// All atomic operations are relaxed. Which worker draws a chunk carries no data. The scheduler's lock, taken on
// entering and leaving the op, orders reset() and what the chunks read and write. If another runtime's loop executes
// the op, its fork and join order them.
class Chunks {
public:
    static constexpr int kMaxParts = 16;
    static constexpr std::int64_t kNone = -1;

    // reset() makes `count` chunks for up to `workers` workers. No thread may be drawing.
    void reset(std::int64_t count, std::int64_t workers) {
        count_ = count;
        parts_ = static_cast<int>(std::clamp<std::int64_t>(std::min(workers, count), 1, kMaxParts));
        for (int i = 0; i < parts_; ++i) {
            Part& part = part_[static_cast<std::size_t>(i)];
            part.next.store(count * i / parts_, std::memory_order_relaxed);
            part.end = count * (i + 1) / parts_;
        }
    }

    // count() returns how many chunks reset() made.
    std::int64_t count() const { return count_; }

    // left() estimates how many chunks have not been drawn yet. Any thread may call it.
    std::int64_t left() const {
        std::int64_t left = 0;
        for (int i = 0; i < parts_; ++i) left += std::max<std::int64_t>(part(i).end - part(i).reached(), 0);
        return left;
    }

    // Cursor is one worker's position in the parts. It starts at the part of the worker's slot.
    class Cursor {
    public:
        Cursor(Chunks& chunks, int slot) : chunks_(chunks), first_(std::max(slot, 0) % chunks.parts_) {}

        // draw() returns the next chunk, or kNone when all have been drawn.
        std::int64_t draw() {
            for (; exhausted_ < chunks_.parts_; ++exhausted_) {
                Part& part = chunks_.part((first_ + exhausted_) % chunks_.parts_);
                if (part.reached() >= part.end) continue;  // reading leaves the cache line shared
                const std::int64_t chunk = part.next.fetch_add(1, std::memory_order_relaxed);
                if (chunk < part.end) return chunk;
            }
            return kNone;
        }

    private:
        Chunks& chunks_;
        int first_;
        int exhausted_ = 0;  // parts, from the first one on, that have no chunk left
    };

private:
    struct alignas(64) Part {
        std::atomic<std::int64_t> next{0};  // partner: the same operations of other workers; relaxed, see above
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
