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

// make_failure() returns an exception to be thrown later. It throws and catches it: std::make_exception_ptr would copy
// it, and ThreadSanitizer does not see the reference count of the text that copies of standard exceptions share.
template <class Exception>
std::exception_ptr make_failure(const std::string& text) {
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

// Ending tells the tasks of a run, and the runs that are called from inside them, that the run has ended. All of these
// share it, because they may outlive a run that its caller has abandoned.
struct Ending {
    // Dispatcher::cancel() stores it under the lock of the run's scheduler; workers load it without, as a hint to stop
    // early. Both are relaxed: a worker that acts on it takes that lock when it leaves its op, which orders the rest.
    std::atomic<bool> ended{false};
    std::shared_ptr<const Ending> outer;  // of the run around this one; constant once the run is listed
};

// CancelToken ends all runs that it was given to, later ones included. Any thread may call its functions.
class CancelToken {
public:
    // cancel() ends the runs. It takes the lock of each run's scheduler in turn, and does not wait for the runs to end.
    void cancel();
    // cancelled() returns whether cancel() has been called; it takes no lock.
    bool cancelled() const;

    // attach() makes cancel() end the run numbered `run` too, until detach(). Returns false if the token is already
    // cancelled. The thread that calls the run calls both, without a scheduler's lock.
    bool attach(std::shared_ptr<Scheduler> scheduler, std::uint64_t run);
    void detach(std::uint64_t run);

private:
    struct Entry {
        std::shared_ptr<Scheduler> scheduler;
        std::uint64_t run;
        std::uint64_t generation;  // see fork.h: the runs of a parent process do not exist in its child
    };
    std::atomic<bool> cancelled_{false};  // cancel() exchanges it under context_mutex(); cancelled() is the partner
    std::vector<Entry> entries_;          // guarded by context_mutex()
};

}  // namespace treadle
