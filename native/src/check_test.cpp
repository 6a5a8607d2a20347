// main() of the tests: runs the cases whose names contain the first argument in a process that another one watches.
#include "treadle/check.h"

#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <new>
#include <thread>

namespace treadle::check {

std::vector<Case>& cases() {
    static std::vector<Case> all;
    return all;
}

namespace {

using Clock = std::chrono::steady_clock;

// A case hangs if its threads neither ran nor waited for a CPU for so long, or if they ran for longer.
constexpr double kMostIdleSeconds = 60.0;
constexpr double kMostBusySeconds = 240.0;

// The running case, in memory of both processes.
struct Current {
    std::atomic<int> number{-1};  // stored with release after `name`, loaded with acquire by the watching process
    char name[256] = {};
};

std::vector<std::string> thread_ids(const std::string& process) {
    std::vector<std::string> ids;
    DIR* folder = opendir(("/proc/" + process + "/task").c_str());
    if (folder == nullptr) return ids;
    while (const dirent* entry = readdir(folder)) {
        if (entry->d_name[0] != '.') ids.emplace_back(entry->d_name);
    }
    closedir(folder);
    return ids;
}

// How long the threads of a process ran, and how long they waited for a CPU, since the watch began. Of threads that have
// ended, what the last update() saw counts.
class SchedulingTimes {
public:
    explicit SchedulingTimes(std::string process) : process_(std::move(process)) { update(); }

    void update() {
        const bool first = threads_.empty();
        for (const std::string& id : thread_ids(process_)) {
            Times now;
            std::ifstream file("/proc/" + process_ + "/task/" + id + "/schedstat");
            if (!(file >> now.ran_ns >> now.waited_ns)) continue;  // the thread has just ended
            Thread& thread = threads_.try_emplace(id).first->second;
            if (first) thread.began = now;
            thread.last = now;
        }
    }

    double ran_seconds() const { return total(&Times::ran_ns); }
    double waited_seconds() const { return total(&Times::waited_ns); }

private:
    struct Times {
        double ran_ns = 0, waited_ns = 0;
    };
    struct Thread {
        Times began, last;
    };

    double total(double Times::*which) const {
        double sum = 0;
        for (const auto& [id, thread] : threads_) sum += thread.last.*which - thread.began.*which;
        return sum / 1e9;
    }

    std::string process_;
    std::map<std::string, Thread> threads_;
};

// Prints where each thread of the process hangs.
void print_threads(const std::string& process) {
    for (const std::string& id : thread_ids(process)) {
        std::string name;
        std::string where;
        std::getline(std::ifstream("/proc/" + process + "/task/" + id + "/comm"), name);
        std::getline(std::ifstream("/proc/" + process + "/task/" + id + "/wchan"), where);
        std::fprintf(stderr, "  %s %s waits in %s\n", id.c_str(), name.c_str(), where.c_str());
    }
}

// Waits for the process that runs the cases. Ends it if a case hangs. A busy machine makes no case hang: the time in
// which threads wait for a CPU does not count. Returns the exit status.
int watch(pid_t tests, const Current& current) {
    const std::string process = std::to_string(tests);
    int number = -1;
    Clock::time_point began = Clock::now(), updated = began;
    SchedulingTimes times(process);
    for (;;) {
        int status = 0;
        if (waitpid(tests, &status, WNOHANG) == tests) {
            if (WIFEXITED(status)) return WEXITSTATUS(status);
            std::fprintf(stderr, "\nended by signal %d in %s\n", WTERMSIG(status), current.name);
            return 1;
        }
        const Clock::time_point now = Clock::now();
        if (const int running = current.number.load(std::memory_order_acquire); running != number) {
            number = running;
            began = updated = now;
            times = SchedulingTimes(process);
        } else if (now - updated > std::chrono::seconds(1)) {
            updated = now;
            times.update();
            const double taken = std::chrono::duration<double>(now - began).count();
            const double idle = taken - times.ran_seconds() - times.waited_seconds();
            if (idle > kMostIdleSeconds || times.ran_seconds() > kMostBusySeconds) {
                std::fprintf(stderr, "\nHANG in %s after %.0f s (%.0f on a CPU); threads:\n", current.name, taken,
                             times.ran_seconds());
                print_threads(process);
                kill(tests, SIGKILL);
            }
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
}

// Fails if threads outlive their case. A thread that was just joined may be listed a moment longer.
bool is_alone() {
    for (int i = 0; i < 200; ++i) {
        std::size_t count = 0;
        for (const std::string& id : thread_ids("self")) {
            std::string name;
            std::getline(std::ifstream("/proc/self/task/" + id + "/comm"), name);
            if (name.rfind("treadle-", 0) == 0) ++count;
        }
        if (count == 0) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
}

int run_all(const std::string& filter, Current& current) {
    std::string failed;  // the faults again, so that the end of a log has them
    int faults = 0;
    int ran = 0;
    for (const Case& one : cases()) {
        if (one.name.find(filter) == std::string::npos) continue;
        std::snprintf(current.name, sizeof current.name, "%s", one.name.c_str());
        current.number.store(ran++, std::memory_order_release);
        const auto start = Clock::now();
        std::string fault;
        try {
            one.body();
            if (!is_alone()) fault = "left threads of a team running";
        } catch (const std::exception& error) {
            fault = error.what();
        }
        const std::chrono::duration<double> taken = Clock::now() - start;
        if (!fault.empty()) {
            ++faults;
            failed += "FAIL " + one.name + ": " + fault + "\n";
        }
        std::printf("%s %s (%.2f s)%s%s\n", fault.empty() ? "ok  " : "FAIL", one.name.c_str(), taken.count(),
                    fault.empty() ? "" : ": ", fault.c_str());
        std::fflush(stdout);
    }
    std::printf("%s%d cases, %d failed\n", failed.c_str(), ran, faults);
    return faults == 0 && ran > 0 ? 0 : 1;
}

}  // namespace

}  // namespace treadle::check

int main(int count, char** arguments) {
    using namespace treadle::check;
    void* const shared = mmap(nullptr, sizeof(Current), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        std::perror("mmap");
        return 1;
    }
    Current& current = *new (shared) Current;
    const pid_t tests = fork();
    if (tests < 0) {
        std::perror("fork");
        return 1;
    }
    if (tests > 0) return watch(tests, current);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return run_all(count > 1 ? arguments[1] : "", current);
}
