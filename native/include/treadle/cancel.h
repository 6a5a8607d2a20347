// How a run may end before it is done: a token, a deadline, the end of the run around it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace treadle {

class Scheduler;

// made_failure() is an exception to be thrown later. It is made in place: std::make_exception_ptr copies it, and the
// text that copies of standard exceptions share is counted where ThreadSanitizer does not see.
template <class Exception>
std::exception_ptr made_failure(const std::string& text) {
    try {
        throw Exception(text);
    } catch (...) {
        return std::current_exception();
    }
}

// RunCancelled ends a run whose token was cancelled, or that was called from inside a run that has ended.
struct RunCancelled : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// RunTimeout ends a run whose deadline has passed.
struct RunTimeout : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Ending tells whether a run has been ended, to its own tasks and to the runs called from inside of them. These share it,
// as they may outlive a run that its caller has abandoned.
struct Ending {
    // Set under the lock of the run's scheduler, read without: a hint to stop early. Whoever acts on it takes that lock
    // when it leaves its op, which orders the rest.
    std::atomic<bool> ended{false};
    std::shared_ptr<const Ending> around;  // of the run that this one is called from inside of; constant once listed
};

// CancelToken ends all runs it was given to, those to come included. All functions may be called from any thread.
class CancelToken {
public:
    void cancel();
    bool cancelled() const;

    // join() makes cancel() end the run numbered `run` too; false if the token is cancelled already. part() undoes it.
    bool join(std::shared_ptr<Scheduler> scheduler, std::uint64_t run);
    void part(std::uint64_t run);

private:
    struct Entry {
        std::shared_ptr<Scheduler> scheduler;
        std::uint64_t run;
        std::uint64_t generation;  // of the process, see fork.h: a child has none of its parent's runs
    };
    std::atomic<bool> cancelled_{false};  // changed under context_mutex()
    std::vector<Entry> entries_;          // guarded by context_mutex()
};

}  // namespace treadle
