#include "treadle/mapped_file.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <system_error>

namespace treadle {

namespace {

// A mapped range, as the handler finds it. A place is free while `begin` is 0.
struct Range {
    // Written under `lock`. begin_range() writes `begin` last (release) and the handler reads it first (acquire), so that
    // it sees `end`. A range is removed when no thread reads it, so the handler needs no stronger order than that.
    std::atomic<std::uintptr_t> begin{0};
    std::atomic<std::uintptr_t> end{0};
    // Set by the handler on the thread that reads the page. That thread, or one that waits for it, asks for it.
    std::atomic<bool> was_cut{false};
};

std::array<Range, MappedFile::kMostFiles> ranges;
std::atomic<std::size_t> used{0};  // no range lies at this place or behind it; written like Range::begin
std::atomic<bool> any_cut{false};  // written and read like Range::was_cut
std::mutex lock;
struct sigaction before;
std::uintptr_t page_bytes = 0;

// The range that has `address`; nullptr if there is none.
Range* range_of(std::uintptr_t address) {
    const std::size_t count = used.load(std::memory_order_acquire);  // see `used`
    for (std::size_t place = 0; place < count; ++place) {
        Range& range = ranges[place];
        const std::uintptr_t begin = range.begin.load(std::memory_order_acquire);  // see Range::begin
        if (begin != 0 && begin <= address && address < range.end.load(std::memory_order_relaxed)) return &range;
    }
    return nullptr;
}

// Puts a page of zeros at `page`. It calls the system directly: ThreadSanitizer replaces libc's mmap(), and would report
// a race with threads that read the page.
bool put_zeros(std::uintptr_t page) {
    const long found = syscall(SYS_mmap, page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return found == static_cast<long>(page);
}

// Calls only what is safe in a handler.
void on_bus_error(int number, siginfo_t* info, void* context) {
    const int saved = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    Range* const range = info->si_code > 0 ? range_of(address) : nullptr;  // not sent by a process
    if (range != nullptr && put_zeros(address & ~(page_bytes - 1))) {
        range->was_cut.store(true, std::memory_order_relaxed);  // see Range::was_cut
        any_cut.store(true, std::memory_order_relaxed);  // see any_cut
        errno = saved;
        return;
    }
    if ((before.sa_flags & SA_SIGINFO) != 0) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    } else {
        sigaction(SIGBUS, &before, nullptr);  // the instruction is tried again, and the system does the rest
        if (info->si_code <= 0) raise(SIGBUS);
    }
    errno = saved;
}

void set_handler() {
    page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, nullptr, &before);  // first, as the handler may be needed at once
    if (sigaction(SIGBUS, &action, nullptr) != 0) throw std::system_error(errno, std::generic_category(), "SIGBUS");
}

std::size_t begin_range(const void* data, std::size_t size) {
    const std::lock_guard guard(lock);
    static const bool is_set = (set_handler(), true);
    static_cast<void>(is_set);
    const auto free = std::find_if(ranges.begin(), ranges.end(),
                                   [](const Range& range) { return range.begin.load(std::memory_order_relaxed) == 0; });
    if (free == ranges.end()) throw std::system_error(ENFILE, std::generic_category(), "mapped files");
    const auto begin = reinterpret_cast<std::uintptr_t>(data);
    const auto place = static_cast<std::size_t>(free - ranges.begin());
    free->was_cut.store(false, std::memory_order_relaxed);
    free->end.store(begin + size, std::memory_order_relaxed);
    free->begin.store(begin, std::memory_order_release);  // see Range::begin
    if (place >= used.load(std::memory_order_relaxed)) used.store(place + 1, std::memory_order_release);  // see `used`
    return place;
}

}  // namespace

MappedFile::MappedFile(int handle, off_t offset, std::size_t bytes, bool huge_pages) : size_(bytes) {
    void* const data = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, handle, offset);
    if (data == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
    data_ = static_cast<const std::byte*>(data);
    try {
        place_ = begin_range(data, bytes);
    } catch (...) {
        munmap(data, bytes);
        throw;
    }
#ifdef MADV_HUGEPAGE
    if (huge_pages) madvise(data, bytes, MADV_HUGEPAGE);  // advice: if it is refused, only speed changes
#else
    static_cast<void>(huge_pages);
#endif
}

MappedFile::~MappedFile() {
    {
        const std::lock_guard guard(lock);
        ranges[place_].begin.store(0, std::memory_order_relaxed);  // see Range::begin
    }
    munmap(const_cast<std::byte*>(data_), size_);
}

bool MappedFile::was_cut() const { return ranges[place_].was_cut.load(std::memory_order_relaxed); }

void MappedFile::release(std::size_t first, std::size_t last) const {
    const std::size_t begin = (first + page_bytes - 1) / page_bytes * page_bytes;
    const std::size_t end = std::min(last, size_) / page_bytes * page_bytes;
    if (begin < end) madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

bool MappedFile::any_was_cut() { return any_cut.load(std::memory_order_relaxed); }

}  // namespace treadle
