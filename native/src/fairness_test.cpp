// Runs that compete for slots: in which order they are served, and that none starves.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::int32_t nap(void* const*, const std::int64_t* args, std::int64_t, void*) {
    std::this_thread::sleep_for(std::chrono::microseconds(args[0]));
    return 0;
}

// Returns a chain of steps that take `us` each and are estimated at `cost_ns`.
std::unique_ptr<Program> chain(int count, int us, double cost_ns = kCostly) {
    Builder builder;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto task = builder.add_kernel(nap, {us}, 1, cost_ns);
        if (i > 0) builder.link(task - 1, task);
    }
    return builder.build();
}

void run(Team& team, Program& program, int priority = 0) {
    void* bound[] = {&team};
    Request request;
    request.priority = priority;
    team.run(program, bound, request);
}

}  // namespace

// Two long runs occupy the team for half a second. A short run takes turns with them and ends long before.
TREADLE_TEST_WORKERS(a_short_run_does_not_wait_for_the_end_of_long_ones) {
    Team team("t", {workers, workers});
    const auto long_chain = chain(500, 1000);
    const auto short_chain = chain(1, 1000);
    std::atomic<int> ended{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < workers + 1; ++i) {
        clients.emplace_back([&] {
            run(team, *long_chain);
            ended.fetch_add(1);
        });
    }
    std::this_thread::sleep_for(20ms);
    for (int i = 0; i < 3; ++i) run(team, *short_chain);
    const int ended_before = ended.load();
    for (auto& client : clients) client.join();
    CHECK_EQUAL(0, ended_before);
}

// Two workers execute a run of many independent tasks when a second client calls a run. That run gets the second worker
// at the next task, and not at the end of the first run's turn, some sixty tasks later.
TREADLE_TEST(a_run_without_a_worker_gets_one_before_another_run_gets_a_second) {
    Team team("t", {2, 2});
    static std::atomic<int> ops{0};
    Builder builder;
    for (int i = 0; i < 400; ++i) {
        builder.add_kernel(
            [](void* const*, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
                ++ops;
                std::this_thread::sleep_for(100us);
                return 0;
            },
            {});
    }
    const auto long_run = builder.build();
    int waited = 0;
    Builder one;
    one.buffers.clear();
    one.add_host([&](auto) { waited = ops - waited; });
    const auto short_run = one.build();
    std::vector<int> waits;
    for (int attempt = 0; attempt < 5; ++attempt) {
        ops = 0;
        std::thread client([&] { run(team, *long_run); });
        while (ops < 5) std::this_thread::sleep_for(50us);
        waited = ops;
        team.run(*short_run, {});
        waits.push_back(waited);
        client.join();
    }
    std::sort(waits.begin(), waits.end());
    CHECK(waits[2] <= 12);
}

// With turns, all runs would end as late as the last one.
TREADLE_TEST(runs_of_equal_length_are_served_one_after_the_other) {
    Team team("t", {1, 1});
    const auto program = chain(60, 1000);
    std::vector<Clock::time_point> ends(3);
    std::vector<std::thread> clients;
    for (auto& end : ends) {
        clients.emplace_back([&] {
            run(team, *program);
            end = Clock::now();
        });
    }
    for (auto& client : clients) client.join();
    std::sort(ends.begin(), ends.end());
    CHECK(ends[1] - ends[0] > 40ms);
    CHECK(ends[2] - ends[1] > 40ms);
}

// Each run uses the arena that the run before it has returned, which is still in the caches.
TREADLE_TEST(queued_runs_hold_no_arena) {
    Team team("t", {1, 1});
    const auto program = chain(2, 500, 1e9);
    std::vector<std::thread> clients;
    for (int i = 0; i < 6; ++i) clients.emplace_back([&] { run(team, *program); });
    for (auto& client : clients) client.join();
    CHECK_EQUAL(1u, program->arenas());
    CHECK(program->contexts() > 1);
}

TREADLE_TEST(a_run_without_memory_fails_and_leaves_the_team_usable) {
    const auto small = chain(2, 0);
    for (const int workers : {1, 2}) {
        Team team("t", {workers, workers});
        Builder builder;
        for (int i = 0; i < 3; ++i) builder.add_kernel(nap, {0}, 4);
        Program large(builder.steps, builder.tasks, builder.successors, builder.buffers, std::int64_t{1} << 60, 0);
        for (int i = 0; i < 3; ++i) CHECK_THROWS(std::bad_alloc, run(team, large));
        CHECK_EQUAL(0u, large.arenas());
        run(team, *small);
        CHECK_EQUAL(0, team.status().slots);
    }
}

TREADLE_TEST(a_run_that_exceeds_its_estimate_gives_turns_to_others) {
    Team team("t", {1, 1});
    const auto overdue = chain(300, 1000, 1000);
    const auto honest = chain(20, 1000);
    std::atomic<bool> has_ended{false};
    std::thread client([&] {
        run(team, *overdue);
        has_ended = true;
    });
    std::this_thread::sleep_for(20ms);
    run(team, *honest);
    CHECK(!has_ended);
    client.join();
}

namespace {

// Records which threads computed the chunks of a chain of ops on the parallel path.
class Shared {
public:
    explicit Shared(int ops) {
        for (std::int64_t i = 0; i < ops; ++i) {
            const auto task = builder_.add_kernel(chunk, {i}, 2);
            if (i > 0) builder_.link(task - 1, task);
        }
        program_ = builder_.build();
        who_.resize(static_cast<std::size_t>(ops) * 2);
    }

    void run(Team& team) {
        void* bound[] = {who_.data()};
        team.run(*program_, bound);
    }

    // Returns the fraction that the calling thread has not computed.
    double helped() const {
        const auto others = std::count_if(who_.begin(), who_.end(),
                                          [](std::thread::id id) { return id != std::this_thread::get_id(); });
        return static_cast<double>(others) / static_cast<double>(who_.size());
    }

private:
    static std::int32_t chunk(void* const* pointers, const std::int64_t* args, std::int64_t index, void*) {
        std::this_thread::sleep_for(100us);
        static_cast<std::thread::id*>(pointers[0])[2 * args[0] + index] = std::this_thread::get_id();
        return 0;
    }

    Builder builder_;
    std::unique_ptr<Program> program_;
    std::vector<std::thread::id> who_;
};

}  // namespace

namespace {

// Two clients use a team of two slots; one pauses after each of its runs. Returns whether, in one of some attempts,
// compute workers did at most a tenth of each client's runs. Other processes that take a CPU may spoil some attempts.
bool keep_their_slots(std::chrono::microseconds pause) {
    Team team("t", {2, 2});
    for (int attempt = 0; attempt < 30; ++attempt) {
        Shared first(200);
        Shared second(20);
        std::atomic<bool> has_ended{false};
        double most = 0;
        std::thread client([&] {
            first.run(team);
            most = first.helped();
            has_ended = true;
        });
        std::vector<double> others;
        while (!has_ended) {
            second.run(team);
            others.push_back(second.helped());
            if (pause.count() > 0) std::this_thread::sleep_for(pause);
        }
        client.join();
        std::sort(others.begin(), others.end());
        if (std::max(most, others[others.size() / 2]) < 0.1) return true;
    }
    return false;
}

}  // namespace

// If a compute worker took the slot of a client between two runs, the client would find none when it returns, and that
// worker would serve it from then on.
TREADLE_TEST(a_slot_is_reserved_for_a_client_between_two_runs) { CHECK(keep_their_slots(0us)); }

// The first client's runs take 4 ms.
TREADLE_TEST(a_slot_is_reserved_longer_for_longer_runs) { CHECK(keep_their_slots(1ms)); }

namespace {

// Two clients on a team of two slots. The first client's run has two tasks and so uses both slots until the second
// client's run is queued. Then the compute worker serves the second run, and the first run ends.
struct TwoClients {
    explicit TwoClients(Team& its_team) : team(its_team) {}

    Team& team;
    std::atomic<bool> is_full{false};
    std::atomic<bool> is_served{false};
    std::thread::id threads[10];
};

TwoClients& clients(void* const* pointers) { return *static_cast<TwoClients*>(pointers[0]); }

std::int32_t wait_until_second_is_served(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    while (!clients(pointers).is_served) std::this_thread::sleep_for(10us);
    return 0;
}

std::int32_t wait_until_second_is_queued(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    clients(pointers).is_full = true;
    while (clients(pointers).team.status().waiting == 0) std::this_thread::sleep_for(10us);
    return 0;
}

std::int32_t note_second_is_served(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    clients(pointers).is_served = true;
    return 0;
}

std::int32_t note_thread(void* const* pointers, const std::int64_t*, std::int64_t chunk, void*) {
    std::this_thread::sleep_for(200us);
    clients(pointers).threads[chunk] = std::this_thread::get_id();
    return 0;
}

}  // namespace

// The first client's run has ended, and its slot is reserved for it. The second client's run has a worker, so its
// caller waits.
TREADLE_TEST(the_caller_of_a_served_run_does_not_take_a_reserved_slot) {
    Team team("t", {2, 2});
    constexpr double kLong = 4e7;
    Builder first;
    first.add_kernel(wait_until_second_is_served, {}, 1, kLong, 1);
    first.add_kernel(wait_until_second_is_queued, {}, 1, kLong);
    const auto full = first.build();
    Builder second;
    second.link(second.add_kernel(note_second_is_served, {}), second.add_kernel(note_thread, {}, 10));
    const auto served = second.build();
    const auto short_run = chain(1, 0, kLong);
    int attempts = 0;
    for (bool has_helped = true; has_helped; ++attempts) {
        CHECK(attempts < 30);
        TwoClients clients(team);
        void* bound[] = {&clients};
        std::thread client([&] {
            run(team, *short_run);
            team.run(*full, bound);
        });
        while (!clients.is_full) std::this_thread::sleep_for(10us);
        team.run(*served, bound);
        client.join();
        has_helped = std::count(std::begin(clients.threads), std::end(clients.threads), std::this_thread::get_id()) > 0;
    }
}

TREADLE_TEST(the_slot_of_a_client_that_does_not_return_goes_to_a_helper) {
    Team team("t", {2, 2});
    for (double helped = 0; helped < 0.3;) {  // a hang is a failure
        Shared first(400);
        Shared second(5);
        std::thread client([&] { second.run(team); });
        first.run(team);
        client.join();
        helped = first.helped();
    }
}

// Six clients share two slots. A client that has its result must not share a CPU with the thread that computes the next
// one, so no client computes.
TREADLE_TEST(with_more_clients_than_slots_compute_workers_serve_all_runs) {
    Team team("t", {2, 2});
    std::vector<double> helped(6);
    std::vector<std::thread> clients;
    for (double& share : helped) {
        clients.emplace_back([&] {
            Shared run(3);
            std::vector<double> shares;
            for (int i = 0; i < 60; ++i) {
                run.run(team);
                shares.push_back(run.helped());
            }
            std::sort(shares.begin(), shares.end());
            share = shares[shares.size() / 2];
        });
    }
    for (auto& client : clients) client.join();
    CHECK_EQUAL(2, team.status().workers);
    std::sort(helped.begin(), helped.end());
    CHECK(helped[2] > 0.9);
}

TREADLE_TEST(a_team_of_one_slot_starts_no_threads_for_many_clients) {
    Team team("t", {1, 1});
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
        clients.emplace_back([&] {
            Shared run(3);
            for (int k = 0; k < 20; ++k) run.run(team);
        });
    }
    for (auto& client : clients) client.join();
    CHECK_EQUAL(std::size_t{0}, team.threads());
}

TREADLE_TEST(runs_of_higher_priority_start_first) {
    Team team("t", {1, 1});
    const auto holder = chain(30, 1000);
    const auto program = chain(3, 1000);
    std::mutex mutex;
    std::string order;
    std::vector<std::thread> clients;
    clients.emplace_back([&] { run(team, *holder, 9); });
    std::this_thread::sleep_for(5ms);
    for (const int priority : {1, 3, 2}) {
        clients.emplace_back([&, priority] {
            run(team, *program, priority);
            const std::lock_guard lock(mutex);
            order += std::to_string(priority);
        });
        std::this_thread::sleep_for(2ms);
    }
    for (auto& client : clients) client.join();
    CHECK_EQUAL(std::string("321"), order);
}

}  // namespace treadle::testing
