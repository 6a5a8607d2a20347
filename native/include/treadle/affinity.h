// The CPUs on which a thread may run.
#pragma once

#include <pthread.h>

#include <vector>

namespace treadle {

// cpus_of_this_thread() returns the CPUs of the calling thread; empty if the system does not say.
std::vector<int> cpus_of_this_thread();
// pin_thread() confines a thread to `cpus`. Any thread may call it. Returns 0 or the system's error number.
int pin_thread(pthread_t thread, const std::vector<int>& cpus);

}  // namespace treadle
