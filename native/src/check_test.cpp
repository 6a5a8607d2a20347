// main() of the tests: runs the cases whose names contain the first argument, each under a watchdog.
#include "treadle/check.h"

#include <dirent.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace treadle::check {

std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}

namespace {

constexpr unsigned kMostSeconds = 60;
char current[256];  // name of the running case, for the watchdog

std::vector<std::string> thread_ids() {
    std::vector<std::string> ids;
    DIR* folder = opendir("/proc/self/task");
    if (folder == nullptr) return ids;
    while (const dirent* entry = readdir(folder)) {
        if (entry->d_name[0] != '.') ids.emplace_back(entry->d_name);
    }
    closedir(folder);
    return ids;
}

// Prints where each thread hangs, and ends the process.
void watchdog(int) {
    std::fprintf(stderr, "\nHANG in %s after %u s; threads:\n", current, kMostSeconds);
    for (const std::string& id : thread_ids()) {
        std::string name;
        std::string where;
        std::getline(std::ifstream("/proc/self/task/" + id + "/comm"), name);
        std::getline(std::ifstream("/proc/self/task/" + id + "/wchan"), where);
        std::fprintf(stderr, "  %s %s waits in %s\n", id.c_str(), name.c_str(), where.c_str());
    }
    std::abort();
}

// Fails if threads outlive their case. A thread that was just joined may be listed a moment longer.
bool is_alone() {
    for (int i = 0; i < 200; ++i) {
        std::size_t count = 0;
        for (const std::string& id : thread_ids()) {
            std::string name;
            std::getline(std::ifstream("/proc/self/task/" + id + "/comm"), name);
            if (name.rfind("treadle-", 0) == 0) ++count;
        }
        if (count == 0) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
}

int run_all(const std::string& filter) {
    int failed = 0;
    std::size_t ran = 0;
    signal(SIGALRM, watchdog);
    for (const Case& one : cases()) {
        if (one.name.find(filter) == std::string::npos) continue;
        ++ran;
        std::snprintf(current, sizeof current, "%s", one.name.c_str());
        alarm(kMostSeconds);
        const auto start = std::chrono::steady_clock::now();
        std::string fault;
        try {
            one.body();
            if (!is_alone()) fault = "left threads of a team running";
        } catch (const std::exception& error) {
            fault = error.what();
        }
        alarm(0);
        const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
        if (!fault.empty()) ++failed;
        std::printf("%s %s (%.2f s)%s%s\n", fault.empty() ? "ok  " : "FAIL", one.name.c_str(), taken.count(),
                    fault.empty() ? "" : ": ", fault.c_str());
        std::fflush(stdout);
    }
    std::printf("%zu cases, %d failed\n", ran, failed);
    return failed == 0 && ran > 0 ? 0 : 1;
}

}  // namespace

}  // namespace treadle::check

int main(int count, char** arguments) { return treadle::check::run_all(count > 1 ? arguments[1] : ""); }
