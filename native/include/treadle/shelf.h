// Memory of results: lent while anybody refers to one, then kept for the results to come.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <list>
#include <memory>
#include <vector>

namespace treadle {

class Shelf;

// Piece is memory of results, aligned to 64 bytes, and the shelf that it lies on while nobody uses it.
struct Piece {
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size = 0;
    Shelf* shelf = nullptr;
};

// Loan is the use of a piece. The piece goes back to the shelf when the loan ends, or to the system where the shelf has gone.
class Loan {
public:
    Loan(Loan&&) = default;
    Loan& operator=(Loan&&) = delete;
    ~Loan();

    std::byte* data() const { return piece_.front().memory.get(); }
    std::size_t size() const { return piece_.front().size; }

private:
    friend class Shelf;
    Loan(std::list<Piece> piece, std::weak_ptr<Shelf> shelf) : piece_(std::move(piece)), shelf_(std::move(shelf)) {}

    std::list<Piece> piece_;  // one, or none once moved from: it changes lists without a call to the allocator
    std::weak_ptr<Shelf> shelf_;
};

// Shelf lends pieces of one size; what came back last is lent first. A piece that comes back while more than `most_idle`
// bytes lie on all shelves of the process has those freed that came back first. Safe to use from any thread; what a child
// of fork() finds on a shelf is its own.
class Shelf : public std::enable_shared_from_this<Shelf> {
public:
    static std::shared_ptr<Shelf> make(std::size_t size, std::size_t most_idle);
    ~Shelf();
    Shelf(const Shelf&) = delete;
    Shelf& operator=(const Shelf&) = delete;

    // lend() gives memory that nothing else refers to, of undefined content. Where the system has none it frees what lies on
    // all shelves and asks again; throws std::bad_alloc if there is none then.
    Loan lend();
    // clear() frees what lies on the shelf.
    void clear();

    // idle_bytes() is how much lies on all shelves.
    static std::size_t idle_bytes();

private:
    friend class Loan;
    Shelf(std::size_t size, std::size_t most_idle) : size_(size), most_idle_(most_idle) {}
    void keep(std::list<Piece>& piece) noexcept;

    const std::size_t size_;
    const std::size_t most_idle_;
    // Guarded by context_mutex(), as is the list of all idle pieces, into which these point in the same order.
    std::vector<std::list<Piece>::iterator> idle_;
};

}  // namespace treadle
