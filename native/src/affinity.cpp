#include "treadle/affinity.h"

#include <cerrno>
#if defined(__linux__)
#include <sched.h>

#include <cstddef>
#include <memory>
#endif

namespace treadle {

#if defined(__linux__)

namespace {

constexpr int kMaxCpus = 1 << 14;

struct FreeSet {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
};

std::unique_ptr<cpu_set_t, FreeSet> empty_set() {
    std::unique_ptr<cpu_set_t, FreeSet> set(CPU_ALLOC(kMaxCpus));
    if (set) CPU_ZERO_S(CPU_ALLOC_SIZE(kMaxCpus), set.get());
    return set;
}

}  // namespace

std::vector<int> cpus_of_this_thread() {
    std::vector<int> cpus;
    const std::size_t size = CPU_ALLOC_SIZE(kMaxCpus);
    const auto set = empty_set();
    if (!set || sched_getaffinity(0, size, set.get()) != 0) return cpus;
    for (int cpu = 0; cpu < kMaxCpus; ++cpu) {
        if (CPU_ISSET_S(static_cast<std::size_t>(cpu), size, set.get())) cpus.push_back(cpu);
    }
    return cpus;
}

int pin_thread(pthread_t thread, const std::vector<int>& cpus) {
    const std::size_t size = CPU_ALLOC_SIZE(kMaxCpus);
    const auto set = empty_set();
    if (!set) return ENOMEM;
    for (const int cpu : cpus) {
        if (cpu < 0 || cpu >= kMaxCpus) return EINVAL;
        CPU_SET_S(static_cast<std::size_t>(cpu), size, set.get());
    }
    return pthread_setaffinity_np(thread, size, set.get());
}

void KeptOff::begin(pthread_t thread) {
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE) return;
    end(thread);
    if (pthread_getaffinity_np(thread, sizeof before_, &before_) != 0) return;
    others_ = before_;
    CPU_CLR(static_cast<std::size_t>(here), &others_);
    if (CPU_COUNT(&others_) == 0 || CPU_EQUAL(&others_, &before_)) return;
    if (pthread_setaffinity_np(thread, sizeof others_, &others_) != 0) return;
    is_on_.store(true, std::memory_order_relaxed);  // see is_on_
}

void KeptOff::end(pthread_t thread) {
    if (!is_on()) return;
    forget();
    cpu_set_t now;
    cpu_set_t after;
    if (pthread_getaffinity_np(thread, sizeof now, &now) != 0) return;
    pthread_setaffinity_np(thread, sizeof before_, &before_);
    if (CPU_EQUAL(&now, &others_) || pthread_getaffinity_np(thread, sizeof after, &after) != 0) return;
    // The CPUs have changed since begin(). Where the thread may use all of `before_` again, no CPU has left the process:
    // the change was made to the thread.
    if (CPU_EQUAL(&after, &before_)) pthread_setaffinity_np(thread, sizeof now, &now);
}

#else

void KeptOff::begin(pthread_t) {}

void KeptOff::end(pthread_t) {}

std::vector<int> cpus_of_this_thread() { return {}; }

int pin_thread(pthread_t, const std::vector<int>&) { return ENOTSUP; }

#endif

}  // namespace treadle
