#include "treadle/shelf.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>
#include <new>
#include <utility>

#include "treadle/fork.h"

namespace treadle {

namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kWorthHugePages = std::size_t{4} << 20;

// The idle pieces of all shelves: who came back first stands first.
struct Idle {
    std::list<Piece> pieces;
    std::size_t bytes = 0;
};

Idle& idle() {
    static Idle* const all = new Idle;  // never destroyed: results may outlive static objects
    return *all;
}

std::byte* allocate(std::size_t size) {
    if (size > SIZE_MAX - kAlignment) return nullptr;
    const std::size_t whole = (size + kAlignment - 1) / kAlignment * kAlignment;
    auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
#ifdef MADV_HUGEPAGE
    if (memory != nullptr && whole >= kWorthHugePages) {
        const std::size_t before = (kPage - reinterpret_cast<std::uintptr_t>(memory) % kPage) % kPage;
        madvise(memory + before, whole - before, MADV_HUGEPAGE);  // advice only: a refusal changes nothing but speed
    }
#endif
    return memory;
}

}  // namespace

Loan::~Loan() {
    if (piece_.empty()) return;
    if (const std::shared_ptr<Shelf> shelf = shelf_.lock()) shelf->keep(piece_);
}

std::shared_ptr<Shelf> Shelf::make(std::size_t size, std::size_t most_idle) {
    return std::shared_ptr<Shelf>(new Shelf(size, most_idle));
}

Shelf::~Shelf() { clear(); }

Loan Shelf::lend() {
    std::list<Piece> piece;
    {
        const std::lock_guard lock(context_mutex());
        if (!idle_.empty()) {
            piece.splice(piece.begin(), idle().pieces, idle_.back());
            idle_.pop_back();
            idle().bytes -= size_;
        }
    }
    if (piece.empty()) {
        piece.push_back({decltype(Piece::memory)(allocate(size_)), size_, this});
        if (!piece.front().memory) {
            std::list<Piece> freed;
            {
                const std::lock_guard lock(context_mutex());
                for (const Piece& each : idle().pieces) each.shelf->idle_.clear();
                freed.swap(idle().pieces);
                idle().bytes = 0;
            }
            freed.clear();
            piece.front().memory.reset(allocate(size_));
        }
        if (!piece.front().memory) throw std::bad_alloc();
    }
    return Loan(std::move(piece), weak_from_this());
}

void Shelf::clear() {
    std::list<Piece> freed;  // declared first, so freed after the lock
    const std::lock_guard lock(context_mutex());
    for (const auto& each : idle_) freed.splice(freed.end(), idle().pieces, each);
    idle().bytes -= size_ * idle_.size();
    idle_.clear();
}

void Shelf::keep(std::list<Piece>& piece) noexcept {
    std::list<Piece> freed;
    const std::lock_guard lock(context_mutex());
    try {
        idle_.push_back(piece.begin());
    } catch (const std::bad_alloc&) {
        return;  // then it is freed
    }
    Idle& all = idle();
    all.pieces.splice(all.pieces.end(), piece);
    all.bytes += size_;
    while (all.bytes > most_idle_) {
        Piece& first = all.pieces.front();
        first.shelf->idle_.erase(first.shelf->idle_.begin());
        all.bytes -= first.size;
        freed.splice(freed.end(), all.pieces, all.pieces.begin());
    }
}

std::size_t Shelf::idle_bytes() {
    const std::lock_guard lock(context_mutex());
    return idle().bytes;
}

}  // namespace treadle
