// The CPUs on which a thread may run.
#pragma once

#include <pthread.h>
#if defined(__linux__)
#include <sched.h>
#endif

#include <atomic>
#include <vector>

namespace treadle {

// cpus_of_this_thread() returns the CPUs of the calling thread; empty if the system does not say.
std::vector<int> cpus_of_this_thread();
// pin_thread() confines a thread to `cpus`. Any thread may call it. Returns 0 or the system's error number.
int pin_thread(pthread_t thread, const std::vector<int>& cpus);

// KeptOff is a thread that is kept off one of its CPUs while it wakes up.
class KeptOff {
public:
    // begin() keeps a sleeping thread off the CPU of the calling thread, if it may run on others. Where the system does
    // not allow that, it does nothing.
    void begin(pthread_t thread);
    // end() gives that thread its CPUs back. If something else has chosen other CPUs for it since begin(), it keeps them.
    void end(pthread_t thread);
    // forget() leaves the thread the CPUs that it has got meanwhile.
    void forget() { is_on_.store(false, std::memory_order_relaxed); }  // see is_on_
    // is_on() may be called by the thread without the lock that guards all else.
    bool is_on() const { return is_on_.load(std::memory_order_relaxed); }  // see is_on_

private:
    // Written under a lock of the user of this class, and relaxed: what wakes the thread orders begin() before is_on(),
    // and end() reads it again under the lock.
    std::atomic<bool> is_on_{false};
#if defined(__linux__)
    cpu_set_t before_{};  // systems with more CPUs than this holds refuse to tell them
    cpu_set_t others_{};  // what begin() has left of them
#endif
};

}  // namespace treadle
