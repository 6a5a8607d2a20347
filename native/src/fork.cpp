#include "treadle/fork.h"

#include <pthread.h>

#include <atomic>

namespace treadle {

namespace {

std::atomic<std::uint64_t> generation{0};

Mutex& forkable_mutex() {
    static Mutex* const mutex = new Mutex;  // never destroyed: workers may outlive static objects
    return *mutex;
}

struct Handlers {
    Handlers() {
        forkable_mutex();
        pthread_atfork([] { forkable_mutex().lock(); }, [] { forkable_mutex().unlock(); },
                       [] {
                           // Relaxed: the child has one thread, so no partner.
                           generation.fetch_add(1, std::memory_order_relaxed);
                           forkable_mutex().unlock();
                       });
    }
};

const Handlers handlers;

}  // namespace

std::uint64_t fork_generation() {
    return generation.load(std::memory_order_relaxed);  // relaxed: changes only while one thread exists, so no partner
}

Mutex& context_mutex() { return forkable_mutex(); }

}  // namespace treadle
