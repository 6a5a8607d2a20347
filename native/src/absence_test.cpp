// Helpers that were given work and do not come, as where another process has their CPU: nobody waits for them.
// ThreadSanitizer puts off signals for ever in threads that make no call it knows, so there the random DAGs of the
// chaos build have to do.
#include "treadle/check.h"

#if !defined(__SANITIZE_THREAD__)
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

// Sequentially consistent throughout: this is a test.
std::atomic<int> held{0};
std::atomic<bool> let_go{false};

void stand_still(int) {
    ++held;
    while (!let_go) std::this_thread::sleep_for(100us);
    --held;
}

void stand_still_shortly(int) { std::this_thread::sleep_for(200us); }

// A team of two whose worker is idle and can be stopped by a signal wherever it is.
class Stoppable {
public:
    explicit Stoppable(void (*handler)(int)) {
        struct sigaction action {};
        action.sa_handler = handler;
        sigaction(SIGUSR1, &action, nullptr);
        let_go = false;
        std::atomic<int> inside{0};
        Builder builder;
        builder.buffers.clear();
        for (int i = 0; i < 2; ++i) {
            builder.add_host([&](auto) {
                ++inside;
                while (inside < 2) std::this_thread::yield();
                if (pthread_equal(pthread_self(), caller_) != 0) return;
                sigset_t one;
                sigemptyset(&one);
                sigaddset(&one, SIGUSR1);
                pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
                worker_ = pthread_self();
            });
        }
        const auto program = builder.build();
        team.run(*program, {});
        while (team.status().slots > 0) std::this_thread::yield();
    }
    ~Stoppable() { release(); }
    Stoppable(const Stoppable&) = delete;
    Stoppable& operator=(const Stoppable&) = delete;

    void kick() const { pthread_kill(worker_, SIGUSR1); }
    void hold() const {
        kick();
        while (held == 0) std::this_thread::yield();
    }
    static void release() {
        let_go = true;
        while (held > 0) std::this_thread::yield();
    }

    Team team{"t", {2, 2}};

private:
    pthread_t caller_ = pthread_self();
    pthread_t worker_{};
};

std::int32_t add_one(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    static_cast<std::atomic<int>*>(pointers[0])->fetch_add(1);
    return 0;
}

// Another client that comes to the team during a run.
struct Comer {
    explicit Comer(Team& its_team) : team(its_team) {}

    Team& team;
    std::atomic<bool> may_begin{false};
    std::atomic<bool> has_ended{false};
};

std::int32_t let_it_wait(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    auto& comer = *static_cast<Comer*>(pointers[0]);
    comer.may_begin = true;
    while (comer.team.status().waiting == 0) std::this_thread::sleep_for(100us);
    return 0;
}

// Waits for its run to end, though not for ever.
std::int32_t outlast(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    auto& comer = *static_cast<Comer*>(pointers[0]);
    comer.may_begin = true;
    for (int i = 0; i < 10'000 && !comer.has_ended; ++i) std::this_thread::sleep_for(1ms);
    return comer.has_ended ? 0 : 1;
}

// Runs `program`, and once it lets another client come, a short run of that.
void run_with_comer(Team& team, Program& program, int priority = 0) {
    Comer comer(team);
    std::thread client([&] {
        while (!comer.may_begin) std::this_thread::yield();
        Builder one;
        one.add_kernel(add_one, {}, 8);
        std::atomic<int> sum{0};
        void* bound[] = {&sum};
        team.run(*one.build(), bound);
        CHECK_EQUAL(8, sum.load());
        comer.has_ended = true;
    });
    void* bound[] = {&comer};
    Request request;
    request.priority = priority;
    try {
        team.run(program, bound, request);
    } catch (...) {
        client.join();
        throw;
    }
    client.join();
}

}  // namespace

// Two places: one is held by the first client, one by the helper of its op.
TREADLE_TEST(a_client_gets_the_place_of_a_helper_that_never_comes_to_its_op) {
    Stoppable stoppable(stand_still);
    stoppable.hold();
    Builder builder;
    builder.add_kernel(outlast, {}, 2);
    run_with_comer(stoppable.team, *builder.build());
    CHECK_EQUAL(1, held.load());
}

// The first client, whose run is more important, takes over the task that the helper was given; the place goes to who
// came, not to the helper again.
TREADLE_TEST(a_client_that_waits_for_a_place_goes_before_a_helper_that_never_comes) {
    Stoppable stoppable(stand_still);
    stoppable.hold();
    Builder builder;
    builder.add_kernel(let_it_wait, {}, 1, kCostly, 1);
    builder.add_kernel(outlast, {});
    run_with_comer(stoppable.team, *builder.build(), 1);
    CHECK_EQUAL(1, held.load());
}

TREADLE_TEST(a_run_ends_though_a_helper_never_comes_to_the_op_it_should_share) {
    Stoppable stoppable(stand_still);
    stoppable.hold();
    Builder builder;
    for (std::int64_t i = 0; i < 50; ++i) {
        builder.add_kernel(add_one, {}, 8);
        if (i > 0) builder.link(i - 1, i);
    }
    const auto program = builder.build();
    std::atomic<int> sum{0};
    void* bound[] = {&sum};
    stoppable.team.run(*program, bound);
    CHECK_EQUAL(50 * 8, sum.load());
    CHECK_EQUAL(1, held.load());
}

TREADLE_TEST(a_task_that_was_given_to_a_helper_that_never_comes_is_run_by_another) {
    Stoppable stoppable(stand_still);
    stoppable.hold();
    Builder builder;
    for (std::int64_t i = 0; i < 40; ++i) {
        builder.add_kernel(add_one, {});
        if (i >= 4) builder.link(i - 4, i);
    }
    const auto program = builder.build();
    std::atomic<int> sum{0};
    void* bound[] = {&sum};
    stoppable.team.run(*program, bound);
    CHECK_EQUAL(40, sum.load());
    CHECK_EQUAL(0, stoppable.team.status().slots);
    // Back again it takes part as before.
    Stoppable::release();
    RandomDag dag(4, 200, 500);
    for (int i = 0; i < 20; ++i) dag.run(stoppable.team);
}

TREADLE_TEST(a_failed_run_does_not_wait_for_a_helper_that_never_comes) {
    Stoppable stoppable(stand_still);
    stoppable.hold();
    Builder builder;
    builder.buffers.clear();
    builder.add_host([](auto) { throw std::runtime_error("stop"); });
    builder.add_host([](auto) { throw std::runtime_error("stop"); });
    const auto program = builder.build();
    for (int i = 0; i < 5; ++i) CHECK_THROWS(std::runtime_error, stoppable.team.run(*program, {}));
    CHECK_EQUAL(1, held.load());
}

TREADLE_TEST(a_helper_that_is_stopped_again_and_again_changes_no_result) {
    Stoppable stoppable(stand_still_shortly);
    std::atomic<bool> stop{false};
    std::thread kicker([&] {
        std::mt19937 random(1);
        while (!stop) {
            stoppable.kick();
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 600));
        }
    });
    for (std::uint64_t seed = 0; seed < 40; ++seed) {
        RandomDag dag(seed, 100, 200);
        for (int i = 0; i < 10; ++i) dag.run(stoppable.team);
    }
    stop = true;
    kicker.join();
}

}  // namespace treadle::testing
#endif
