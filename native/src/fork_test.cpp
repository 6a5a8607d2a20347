#include "treadle/fork.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "treadle/test_programs.h"
#include "treadle/trace.h"

// ThreadSanitizer refuses to start threads in the child of a process that has several.
#if !defined(__SANITIZE_THREAD__)

namespace treadle::testing {

namespace {

constexpr int kHung = 256 + SIGALRM;

// fork() waits for the locks of AddressSanitizer's allocator only since LLVM 18 and GCC 15
// (https://github.com/llvm/llvm-project/pull/75290). With an earlier one a child may find such a lock taken for ever,
// so a child that hangs is forked again. The other builds show whether the core hangs.
#if defined(__SANITIZE_ADDRESS__) && !defined(__clang__) && __GNUC__ < 15
constexpr int kAttempts = 3;
#else
constexpr int kAttempts = 1;
#endif

int in_one_child(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGALRM, SIG_DFL);
        alarm(15);
        int code = 1;
        try {
            body();
            code = 0;
        } catch (...) {
        }
        _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

int in_child(const std::function<void()>& body) {
    int code = in_one_child(body);
    for (int again = 1; code == kHung && again < kAttempts; ++again) code = in_one_child(body);
    return code;
}

}  // namespace

TREADLE_TEST_WORKERS(a_child_gets_a_fresh_team) {
    Team team("t", {workers, workers});
    RandomDag dag(1, 60);
    dag.run(team);
    CHECK_EQUAL(0, in_child([&] {
        CHECK_EQUAL(0u, team.threads());
        dag.run(team);
        team.set_limits({3, 3});
        dag.run(team);
        CHECK_EQUAL(0, in_child([&] { dag.run(team); }));
        team.close();
    }));
    dag.run(team);
    CHECK_EQUAL(workers, team.limits().intra_op);
}

TREADLE_TEST(fork_during_runs_of_other_threads_leaves_the_child_usable) {
    Team team("t", {3, 3});
    RandomDag dag(2, 60);
    std::atomic<bool> stop{false};
    std::vector<std::thread> callers;
    for (int c = 0; c < 2; ++c) {
        callers.emplace_back([&] {
            while (!stop) dag.run(team);
        });
    }
    int worst = 0;
    for (int i = 0; i < 20; ++i) worst = std::max(worst, in_child([&] { dag.run(team); }));
    stop = true;
    for (std::thread& caller : callers) caller.join();
    CHECK_EQUAL(0, worst);
}

TREADLE_TEST(a_child_records_only_its_own_events) {
    Team team("t", {3, 3});
    RandomDag dag(3, 60);
    std::atomic<bool> stop{false};
    trace_start();
    std::thread caller([&] {
        while (!stop) dag.run(team);
    });
    int worst = 0;
    for (int i = 0; i < 20; ++i) {
        worst = std::max(worst, in_child([&] {
            CHECK(trace_stop().empty());
            trace_start();
            dag.run(team);
            std::int64_t chunks = 0;
            for (const Event& event : trace_stop()) chunks += event.chunks;
            std::int64_t expected = 0;
            for (const Step& step : dag.program().steps()) expected += step.chunks;
            CHECK_EQUAL(expected, chunks);
        }));
    }
    stop = true;
    caller.join();
    CHECK(!trace_stop().empty());
    CHECK_EQUAL(0, worst);
}

}  // namespace treadle::testing

#endif
