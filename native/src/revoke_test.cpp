// Assignments that a worker does not accept, for example because another process has its CPU: no run waits for that
// worker. ThreadSanitizer delays signals for ever in threads that make no call it knows. There the random DAGs of the
// chaos build cover revoking.
#include "treadle/check.h"

#if !defined(__SANITIZE_THREAD__)
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "treadle/affinity.h"
#include "treadle/cost.h"
#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

// Sequentially consistent, since this is a test.
std::atomic<int> blocked{0};
std::atomic<bool> released{false};

void block_until_released(int) {
    ++blocked;
    while (!released) std::this_thread::sleep_for(100us);
    --blocked;
}

void block_shortly(int) { std::this_thread::sleep_for(200us); }

// A team of two slots whose compute worker is idle. A signal stops the worker wherever it is.
class Stoppable {
public:
    explicit Stoppable(void (*handler)(int)) {
        struct sigaction action {};
        action.sa_handler = handler;
        sigaction(SIGUSR1, &action, nullptr);
        released = false;
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

    pthread_t worker() const { return worker_; }
    void kick() const { pthread_kill(worker_, SIGUSR1); }
    void hold() const {
        kick();
        while (blocked == 0) std::this_thread::yield();
    }
    static void release() {
        released = true;
        while (blocked > 0) std::this_thread::yield();
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

// The two chunks of this kernel end when both have begun, on two threads.
std::int32_t wait_for_another(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    auto& begun = *static_cast<std::atomic<int>*>(pointers[0]);
    ++begun;
    while (begun < 2) std::this_thread::yield();
    return 0;
}

// Returns `count` independent chains of `length` add_one() steps each.
Builder chains(std::int64_t count, std::int64_t length, std::int64_t chunks) {
    Builder builder;
    for (std::int64_t i = 0; i < count * length; ++i) {
        builder.add_kernel(add_one, {}, chunks);
        if (i >= count) builder.link(i - count, i);
    }
    return builder;
}

// Runs a program of add_one() steps, and returns how many chunks were executed.
int count_chunks(Team& team, const Builder& builder) {
    const auto program = builder.build();
    std::atomic<int> sum{0};
    void* bound[] = {&sum};
    team.run(*program, bound);
    return sum;
}

// SecondClient is a client that calls a run on the team while another run is in progress.
struct SecondClient {
    explicit SecondClient(Team& its_team) : team(its_team) {}

    Team& team;
    std::atomic<bool> may_begin{false};
    std::atomic<bool> has_ended{false};
};

std::int32_t wait_until_second_is_queued(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    auto& second = *static_cast<SecondClient*>(pointers[0]);
    second.may_begin = true;
    while (second.team.status().waiting == 0) std::this_thread::sleep_for(100us);
    return 0;
}

// Waits until the second client's run has ended, for at most ten seconds.
std::int32_t wait_until_second_has_ended(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    auto& second = *static_cast<SecondClient*>(pointers[0]);
    second.may_begin = true;
    for (int i = 0; i < 10'000 && !second.has_ended; ++i) std::this_thread::sleep_for(1ms);
    return second.has_ended ? 0 : 1;
}

// Runs `program`, and a short run of a second client once the program lets that begin.
void run_with_second_client(Team& team, Program& program, int priority = 0) {
    SecondClient second(team);
    std::thread client([&] {
        while (!second.may_begin) std::this_thread::yield();
        Builder one;
        one.add_kernel(add_one, {}, 8);
        CHECK_EQUAL(8, count_chunks(team, one));
        second.has_ended = true;
    });
    void* bound[] = {&second};
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

// The first client holds one of two slots, the helper of its op the other.
TREADLE_TEST(a_caller_reclaims_the_slot_of_a_helper_that_does_not_accept) {
    Stoppable stoppable(block_until_released);
    stoppable.hold();
    Builder builder;
    builder.add_kernel(wait_until_second_has_ended, {}, 2);
    run_with_second_client(stoppable.team, *builder.build());
    CHECK_EQUAL(1, blocked.load());
}

// The first client, whose run has the higher priority, takes over the task assigned to the helper. The slot goes to the
// second client, not to the helper again.
TREADLE_TEST(a_waiting_caller_gets_a_slot_before_a_helper_that_does_not_accept) {
    Stoppable stoppable(block_until_released);
    stoppable.hold();
    Builder builder;
    builder.add_kernel(wait_until_second_is_queued, {}, 1, kCostly, 1);
    builder.add_kernel(wait_until_second_has_ended, {});
    run_with_second_client(stoppable.team, *builder.build(), 1);
    CHECK_EQUAL(1, blocked.load());
}

TREADLE_TEST(a_run_ends_without_a_helper_that_does_not_accept) {
    Stoppable stoppable(block_until_released);
    stoppable.hold();
    CHECK_EQUAL(50 * 8, count_chunks(stoppable.team, chains(1, 50, 8)));
    CHECK_EQUAL(1, blocked.load());
}

TREADLE_TEST(a_task_that_a_helper_does_not_accept_runs_on_another_worker) {
    Stoppable stoppable(block_until_released);
    stoppable.hold();
    CHECK_EQUAL(40, count_chunks(stoppable.team, chains(4, 10, 1)));
    CHECK_EQUAL(0, stoppable.team.status().slots);
    // Once it continues, the helper executes tasks as before.
    Stoppable::release();
    RandomDag dag(4, 200, 500);
    for (int i = 0; i < 20; ++i) dag.run(stoppable.team);
}

TREADLE_TEST(a_failed_run_does_not_wait_for_a_helper_that_does_not_accept) {
    Stoppable stoppable(block_until_released);
    stoppable.hold();
    Builder builder;
    builder.buffers.clear();
    builder.add_host([](auto) { throw std::runtime_error("stop"); });
    builder.add_host([](auto) { throw std::runtime_error("stop"); });
    const auto program = builder.build();
    for (int i = 0; i < 5; ++i) CHECK_THROWS(std::runtime_error, stoppable.team.run(*program, {}));
    CHECK_EQUAL(1, blocked.load());
}

// Help with each op would pay for a wake-up if the helper came in time.
TREADLE_TEST(a_helper_that_comes_too_late_is_woken_less_often) {
    Stoppable stoppable(block_until_released);
    stoppable.hold();
    stoppable.team.set_spin(0ns);
    constexpr std::int64_t kOps = 80;
    Builder builder;
    for (std::int64_t i = 0; i < kOps; ++i) {
        builder.add_kernel(add_one, {}, 2, 2.5 * HandOver().worth_waking_ns());
        if (i > 0) builder.link(i - 1, i);
    }
    const std::uint64_t before = stoppable.team.status().wake_ups;
    CHECK_EQUAL(2 * kOps, count_chunks(stoppable.team, builder));
    const std::uint64_t wake_ups = stoppable.team.status().wake_ups - before;
    CHECK(wake_ups > 0);
    CHECK(wake_ups <= kOps / 4);
    // Once it comes in time, it helps as before.
    Stoppable::release();
    Builder both;
    both.add_kernel(wait_for_another, {}, 2);
    for (int i = 0; i < 20; ++i) count_chunks(stoppable.team, both);  // a hang is a failure
}

#if defined(__linux__)
// A helper that is held by a signal while it wakes up, and kept off the first of its CPUs, on which the caller runs.
class KeptOffHelper {
public:
    KeptOffHelper() {
        pin_thread(pthread_self(), {all.front()});
        stoppable.hold();
        stoppable.team.set_spin(0ns);
        CHECK_EQUAL(20, count_chunks(stoppable.team, chains(1, 10, 2)));
        CHECK(!may_use(all.front()));
        CHECK(may_use(all.back()));
    }
    ~KeptOffHelper() { pin_thread(pthread_self(), all); }
    KeptOffHelper(const KeptOffHelper&) = delete;
    KeptOffHelper& operator=(const KeptOffHelper&) = delete;

    bool may_use(int cpu) const {
        cpu_set_t set;
        return pthread_getaffinity_np(stoppable.worker(), sizeof set, &set) != 0 || CPU_ISSET(cpu, &set);
    }
    // Releases the helper, and runs an op that ends only if it helps.
    void release_and_help() {
        Stoppable::release();
        Builder both;
        both.add_kernel(wait_for_another, {}, 2);
        count_chunks(stoppable.team, both);
    }

    const std::vector<int> all = cpus_of_this_thread();
    Stoppable stoppable{block_until_released};
};

bool has_one_cpu() { return cpus_of_this_thread().size() < 2; }

// Else it may take the CPU from the thread that it is to help.
TREADLE_TEST(a_helper_is_woken_on_another_cpu_and_keeps_its_cpus) {
    if (has_one_cpu()) return;
    KeptOffHelper helper;
    helper.release_and_help();
    CHECK(helper.may_use(helper.all.front()));
}

TREADLE_TEST(a_helper_that_is_woken_in_vain_keeps_its_cpus) {
    if (has_one_cpu()) return;
    KeptOffHelper helper;
    Stoppable::release();
    while (!helper.may_use(helper.all.front())) std::this_thread::yield();  // a hang is a failure
}

TREADLE_TEST(a_helper_keeps_to_cpus_that_are_chosen_for_it_while_it_wakes_up) {
    if (has_one_cpu()) return;
    KeptOffHelper helper;
    pin_thread(helper.stoppable.worker(), {helper.all.front()});
    helper.release_and_help();
    CHECK(helper.may_use(helper.all.front()));
    CHECK(!helper.may_use(helper.all.back()));
}

TREADLE_TEST(a_helper_that_cannot_be_pinned_keeps_its_cpus) {
    if (has_one_cpu()) return;
    constexpr int kMissing = 16383;
    KeptOffHelper helper;
    helper.stoppable.team.set_cpus({kMissing});
    CHECK(!helper.stoppable.team.status().pin_fault.empty());
    helper.release_and_help();
    CHECK(helper.may_use(helper.all.front()));
}
#endif

TREADLE_TEST(stopping_a_helper_again_and_again_changes_no_result) {
    Stoppable stoppable(block_shortly);
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
