// Files that are mapped for reading, which other processes may cut.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace treadle {

// MappedFile maps a part of a file, and unmaps it when it is destroyed.
//
// If the file is cut, a thread that reads a page that is gone would receive SIGBUS, which ends the process. A handler of
// that signal puts a page of zeros in its place, and was_cut() is true from then on: whoever has used the content asks
// that afterwards. Signals at other addresses go to the handler that was set before the first file was mapped. A handler
// that the program sets later replaces this one.
class MappedFile {
public:
    // Maps `bytes` of the open file `handle` from `offset`, a multiple of the page size. The handle stays the caller's.
    // `huge_pages` advises the system to use large pages. Throws std::system_error if the file cannot be mapped, and
    // if `bytes` is 0 or kMostFiles files are mapped.
    MappedFile(int handle, off_t offset, std::size_t bytes, bool huge_pages);
    ~MappedFile();
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;

    const std::byte* data() const { return data_; }
    std::size_t size() const { return size_; }
    // was_cut() tells whether a page was read that the file no longer had.
    bool was_cut() const;
    // release() drops the pages that lie entirely within [first, last), offsets in data(). They are read again on use.
    void release(std::size_t first, std::size_t last) const;

    // any_was_cut() tells whether that has happened to any mapped file of this process.
    static bool any_was_cut();

    static constexpr std::size_t kMostFiles = 4096;

private:
    const std::byte* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t place_ = 0;  // in the list that the handler reads
};

}  // namespace treadle
