// Runs with another runtime's loop. A process can choose its engine once, so each case runs in a child.
#include "treadle/engine.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

std::atomic<unsigned> most_width{0};
std::atomic<int> calls{0};

// An engine that starts new threads for each loop: slow, but it hides no missing order.
void fresh_threads(void (*body)(void*), void* data, unsigned width, unsigned) {
    calls.fetch_add(1);
    most_width.store(std::max(most_width.load(), width));
    std::vector<std::thread> others;
    for (unsigned i = 1; i < width; ++i) others.emplace_back(body, data);
    body(data);
    for (auto& other : others) other.join();
}

void in_child(void (*body)()) {
    std::fflush(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        try {
            set_engine(&fresh_threads);
            body();
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "%s\n", failure.what());
            _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK_EQUAL(0, status);
}

std::int32_t failing_kernel(void* const*, const std::int64_t*, std::int64_t chunk, void*) { return chunk == 3 ? 7 : 0; }

}  // namespace

TREADLE_TEST(random_dags_give_correct_results_with_an_engine) {
    in_child([] {
        Team team("t", {3, 2});
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            RandomDag dag(seed, 40);
            std::vector<std::thread> clients;
            for (int i = 0; i < 3; ++i) clients.emplace_back([&] { dag.run(team); });
            for (auto& client : clients) client.join();
        }
        CHECK(calls.load() > 0);
        CHECK_EQUAL(3u, most_width.load());
        CHECK_EQUAL(0u, team.threads());
        team.set_limits({1, 1});
        calls.store(0);
        RandomDag(3, 40).run(team);
        CHECK_EQUAL(0, calls.load());
    });
}

TREADLE_TEST(failures_reach_the_caller_with_an_engine) {
    in_child([] {
        Team team("t", {4, 1});
        Builder builder;
        builder.add_kernel(failing_kernel, {}, 16);
        const auto program = builder.build();
        void* bound[] = {&team};
        for (int i = 0; i < 20; ++i) CHECK_THROWS(KernelFailure, team.run(*program, bound));
        RandomDag(1, 30).run(team);
    });
}

TREADLE_TEST(a_second_engine_is_refused_after_the_first_run) {
    in_child([] {
        set_engine(nullptr);
        set_engine(&fresh_threads);
        Team team("t", {2, 2});
        RandomDag(1, 10).run(team);
        set_engine(&fresh_threads);
        CHECK_THROWS(std::logic_error, set_engine(nullptr));
    });
}

// ThreadSanitizer refuses to start threads in the child of a process that has several.
#if !defined(__SANITIZE_THREAD__)
TREADLE_TEST(a_child_forked_inside_a_step_finishes_without_the_engine) {
    in_child([] {
        static std::atomic<int> drawn{0};
        const Kernel count = [](void* const*, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
            ++drawn;
            return 0;
        };
        Team team("t", {3, 2});
        bool is_child = false;
        Builder builder;
        builder.buffers = {{BufferKind::arena, 0}};
        builder.add_kernel(count, {}, 10);
        builder.add_host([&](auto) {
            const pid_t child = fork();
            is_child = child == 0;
            if (is_child) return;
            int status = 0;
            waitpid(child, &status, 0);
            CHECK_EQUAL(0, status);
        });
        builder.add_kernel(count, {}, 10);
        builder.link(0, 1);
        builder.link(1, 2);
        team.run(*builder.build(), {});
        CHECK_EQUAL(20, drawn.load());
        CHECK_EQUAL(is_child ? 1 : 2, calls.load());
        if (is_child) _exit(0);
    });
}
#endif

}  // namespace treadle::testing
