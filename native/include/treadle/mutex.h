// The lock of the core: a pthread mutex that spins a little before it sleeps.
#pragma once

#include <pthread.h>

#include "treadle/chaos.h"

namespace treadle {

// Mutex meets the standard's Lockable requirements. The core's critical sections last well under a microsecond, so
// Mutex uses glibc's adaptive mutex, which spins for a bounded time before the futex call.
class Mutex {
public:
    Mutex() {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
#ifdef __GLIBC__
        pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
        pthread_mutex_init(&mutex_, &attributes);
        pthread_mutexattr_destroy(&attributes);
    }
    ~Mutex() { pthread_mutex_destroy(&mutex_); }
    Mutex(const Mutex&) = delete;
    Mutex& operator=(const Mutex&) = delete;

    void lock() {
        chaos_point();
        pthread_mutex_lock(&mutex_);
    }
    bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }
    void unlock() {
        pthread_mutex_unlock(&mutex_);
        chaos_point();
    }

private:
    pthread_mutex_t mutex_;
};

}  // namespace treadle
