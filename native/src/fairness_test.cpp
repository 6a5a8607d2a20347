// Runs that want the same places: who goes first, and that nobody waits for ever.
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

// A chain of steps that take `us` each, and claim to cost `cost_ns`.
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

// Two long runs keep the team busy for half a second; a short one takes turns with them and is through long before.
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

// Two workers share a run of many independent tasks; a second client comes. It gets the second worker at the next task,
// not when the first client's turn is over, which is some sixty tasks later.
TREADLE_TEST(a_run_that_nobody_works_for_comes_before_a_second_worker_for_another) {
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

// Taking turns, all would end with the last.
TREADLE_TEST(equal_runs_are_served_one_after_the_other) {
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

// Each takes the memory that the one before has given back, still in the caches.
TREADLE_TEST(runs_that_wait_for_their_turn_hold_no_memory) {
    Team team("t", {1, 1});
    const auto program = chain(2, 500, 1e9);
    std::vector<std::thread> clients;
    for (int i = 0; i < 6; ++i) clients.emplace_back([&] { run(team, *program); });
    for (auto& client : clients) client.join();
    CHECK_EQUAL(1u, program->arenas());
    CHECK(program->contexts() > 1);
}

TREADLE_TEST(a_run_that_gets_no_memory_fails_and_leaves_the_team_as_it_was) {
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

TREADLE_TEST(a_run_that_takes_longer_than_it_should_gives_turns_to_others) {
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

// Who computed the chunks of a chain of shared ops.
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

    // The part that the calling thread has not computed.
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

// Two clients, two places; one goes away for a while after each of its runs. Whether in one of some attempts no worker did
// more than a tenth of the runs of either. Other processes that take a CPU may spoil some attempts.
bool are_left_to_themselves(std::chrono::microseconds pause) {
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

// If a worker took the place of the client that is between two runs, it would find none when it comes back, and be served
// by that worker from then on.
TREADLE_TEST(the_place_of_a_client_between_two_runs_is_kept_for_it) { CHECK(are_left_to_themselves(0us)); }

// These take 4 ms.
TREADLE_TEST(a_place_is_kept_the_longer_the_longer_the_runs_take) { CHECK(are_left_to_themselves(1ms)); }

namespace {

// Two clients that meet on a team of two places. The first has a run of two tasks and so both places, until the second
// waits; the worker then serves the second, and once it does, the first one's run ends.
struct Meeting {
    explicit Meeting(Team& its_team) : team(its_team) {}

    Team& team;
    std::atomic<bool> is_full{false};
    std::atomic<bool> is_served{false};
    std::thread::id who[10];
};

Meeting& meeting(void* const* pointers) { return *static_cast<Meeting*>(pointers[0]); }

std::int32_t stay_until_the_second_is_served(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    while (!meeting(pointers).is_served) std::this_thread::sleep_for(10us);
    return 0;
}

std::int32_t stay_until_the_second_waits(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    meeting(pointers).is_full = true;
    while (meeting(pointers).team.status().waiting == 0) std::this_thread::sleep_for(10us);
    return 0;
}

std::int32_t say_that_the_second_is_served(void* const* pointers, const std::int64_t*, std::int64_t, void*) {
    meeting(pointers).is_served = true;
    return 0;
}

std::int32_t note_who_works(void* const* pointers, const std::int64_t*, std::int64_t chunk, void*) {
    std::this_thread::sleep_for(200us);
    meeting(pointers).who[chunk] = std::this_thread::get_id();
    return 0;
}

}  // namespace

// The place of the first, whose run has ended, is kept for it: the second one's run is served, so it goes on waiting.
TREADLE_TEST(who_waits_for_a_run_that_is_served_gets_no_place_that_is_kept_for_another) {
    Team team("t", {2, 2});
    constexpr double kLong = 4e7;
    Builder first;
    first.add_kernel(stay_until_the_second_is_served, {}, 1, kLong, 1);
    first.add_kernel(stay_until_the_second_waits, {}, 1, kLong);
    const auto full = first.build();
    Builder second;
    second.link(second.add_kernel(say_that_the_second_is_served, {}), second.add_kernel(note_who_works, {}, 10));
    const auto served = second.build();
    const auto short_run = chain(1, 0, kLong);
    int attempts = 0;
    for (bool has_helped = true; has_helped; ++attempts) {
        CHECK(attempts < 30);
        Meeting meeting(team);
        void* bound[] = {&meeting};
        std::thread client([&] {
            run(team, *short_run);
            team.run(*full, bound);
        });
        while (!meeting.is_full) std::this_thread::sleep_for(10us);
        team.run(*served, bound);
        client.join();
        has_helped = std::count(std::begin(meeting.who), std::end(meeting.who), std::this_thread::get_id()) > 0;
    }
}

TREADLE_TEST(the_place_of_a_client_that_does_not_come_back_goes_to_who_helps_others) {
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

// Six clients, two places: who has its result must not share a CPU with who computes the next, so no client computes.
TREADLE_TEST(where_clients_wait_for_each_other_workers_go_from_run_to_run) {
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

TREADLE_TEST(a_team_of_one_place_has_no_threads_however_many_clients_wait) {
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

TREADLE_TEST(more_important_runs_go_first) {
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
