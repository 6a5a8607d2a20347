// Which CPUs a thread may run on.
#pragma once

#include <pthread.h>

#include <vector>

namespace treadle {

// cpus_of_this_thread() lists them; empty where the system does not say.
std::vector<int> cpus_of_this_thread();
// pin_thread() confines a thread to `cpus`. Returns 0 or the system's error number.
int pin_thread(pthread_t thread, const std::vector<int>& cpus);

}  // namespace treadle
