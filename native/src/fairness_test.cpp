// Runs that want the same places: who goes first, and that nobody waits for ever.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weft/team.h"
#include "weft/test_programs.h"

namespace weft::testing {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

std::int32_t nap(void* const*, const std::int64_t* args, std::int64_t, void*) {
    std::this_thread::sleep_for(std::chrono::microseconds(args[0]));
    return 0;
}

// A chain of steps that take `us` each.
std::unique_ptr<Program> chain(int count, int us) {
    Builder builder;
    for (std::int64_t i = 0; i < count; ++i) {
        const auto task = builder.add_kernel(nap, {us});
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
WEFT_TEST_WORKERS(a_short_run_does_not_wait_for_the_end_of_long_ones) {
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
WEFT_TEST(a_run_that_nobody_works_for_comes_before_a_second_worker_for_another) {
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
    one.slots.clear();
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

WEFT_TEST(equal_runs_end_together) {
    Team team("t", {1, 1});
    const auto program = chain(100, 1000);
    std::vector<Clock::time_point> ends(3);
    std::vector<std::thread> clients;
    for (auto& end : ends) {
        clients.emplace_back([&] {
            run(team, *program);
            end = Clock::now();
        });
    }
    for (auto& client : clients) client.join();
    const auto [first, last] = std::minmax_element(ends.begin(), ends.end());
    // One after the other they would end 100 ms apart.
    CHECK(*last - *first < 90ms);
}

WEFT_TEST(more_important_runs_go_first) {
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

}  // namespace weft::testing
