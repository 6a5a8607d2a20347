#include "treadle/mapped_file.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "treadle/check.h"
#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle {

namespace {

const auto kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));

// A file without a name that is full of sevens.
class File {
public:
    explicit File(std::size_t pages) {
        CHECK(file_ != nullptr);
        const std::string content(pages * kPage, '\7');
        CHECK_EQUAL(static_cast<ssize_t>(content.size()), write(handle(), content.data(), content.size()));
    }
    ~File() { std::fclose(file_); }
    File(const File&) = delete;
    File& operator=(const File&) = delete;

    void cut(std::size_t pages) const { CHECK_EQUAL(0, ftruncate(handle(), static_cast<off_t>(pages * kPage))); }
    int handle() const { return fileno(file_); }

private:
    std::FILE* const file_ = std::tmpfile();
};

int read_all(const MappedFile& file) {
    const auto* data = reinterpret_cast<const volatile unsigned char*>(file.data());
    int sum = 0;
    for (std::size_t at = 0; at < file.size(); at += kPage) sum += data[at];
    return sum;
}

}  // namespace

TREADLE_TEST(a_file_that_is_cut_reads_as_zeros_and_says_so) {
    const File file(4);
    const MappedFile mapped(file.handle(), 0, 4 * kPage, false);
    const MappedFile other(file.handle(), 0, kPage, false);
    CHECK_EQUAL(4 * 7, read_all(mapped));
    CHECK(!mapped.was_cut());
    file.cut(1);
    CHECK_EQUAL(7, read_all(mapped));
    CHECK(mapped.was_cut());
    CHECK(MappedFile::any_was_cut());
    CHECK_EQUAL(7, read_all(other));
    CHECK(!other.was_cut());
}

TREADLE_TEST(a_place_that_was_cut_serves_the_next_file) {
    const File file(2);
    auto mapped = std::make_unique<MappedFile>(file.handle(), 0, 2 * kPage, false);
    file.cut(0);
    CHECK_EQUAL(0, read_all(*mapped));
    mapped.reset();
    const File whole(2);
    const MappedFile next(whole.handle(), static_cast<off_t>(kPage), kPage, true);
    CHECK(!next.was_cut());
    CHECK_EQUAL(7, read_all(next));
}

TREADLE_TEST(released_pages_are_read_again) {
    const File file(3);
    const MappedFile mapped(file.handle(), 0, 3 * kPage, false);
    CHECK_EQUAL(3 * 7, read_all(mapped));
    mapped.release(1, 3 * kPage + 5);
    CHECK_EQUAL(3 * 7, read_all(mapped));
    file.cut(1);
    mapped.release(0, 3 * kPage);
    CHECK_EQUAL(7, read_all(mapped));
    CHECK(mapped.was_cut());
}

TREADLE_TEST(threads_read_files_that_are_cut_meanwhile) {
    for (int round = 0; round < 20; ++round) {
        const File file(64);
        const MappedFile mapped(file.handle(), 0, 64 * kPage, false);
        std::vector<std::thread> threads;
        for (int reader = 0; reader < 3; ++reader) {
            threads.emplace_back([&] {
                while (!mapped.was_cut()) {
                    read_all(mapped);
                    mapped.release(0, mapped.size());
                }
            });
        }
        file.cut(round % 2 == 0 ? 0 : 63);
        for (std::thread& thread : threads) thread.join();
    }
}

TREADLE_TEST(workers_read_files_that_are_cut) {
    const File file(64);
    const MappedFile mapped(file.handle(), 0, 64 * kPage, false);
    file.cut(0);
    std::atomic<int> inside{0};
    testing::Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 2; ++i) {
        builder.add_host([&](auto) {
            ++inside;
            while (inside < 2) std::this_thread::yield();  // so a worker executes one of them
            read_all(mapped);
        });
    }
    const auto program = builder.build();
    Team team("cut", {2, 2});
    team.run(*program, {});
    CHECK(mapped.was_cut());
}

TREADLE_TEST(files_that_cannot_be_mapped_throw) {
    const File file(1);
    CHECK_THROWS(std::system_error, MappedFile(file.handle(), 0, 0, false));
    CHECK_THROWS(std::system_error, MappedFile(file.handle(), 1, kPage, false));
    CHECK_THROWS(std::system_error, MappedFile(-1, 0, kPage, false));
    std::vector<std::unique_ptr<MappedFile>> all;
    const auto map_more = [&] {
        while (all.size() <= MappedFile::kMostFiles) {
            all.push_back(std::make_unique<MappedFile>(file.handle(), 0, kPage, false));
        }
    };
    CHECK_THROWS(std::system_error, map_more());
    all.pop_back();
    CHECK_EQUAL(7, read_all(MappedFile(file.handle(), 0, kPage, false)));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers report such a child, so it runs without them.
TREADLE_TEST(other_bus_errors_end_the_process) {
    const File file(2);
    const MappedFile mapped(file.handle(), 0, kPage, false);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(10);
        void* const raw = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, file.handle(), static_cast<off_t>(kPage));
        if (ftruncate(file.handle(), static_cast<off_t>(kPage)) != 0) _exit(1);
        _exit(*static_cast<volatile char*>(raw));
    }
    int status = 0;
    CHECK_EQUAL(child, waitpid(child, &status, 0));
    CHECK(WIFSIGNALED(status));
    CHECK_EQUAL(SIGBUS, WTERMSIG(status));
}
#endif

}  // namespace treadle
