// Runs that compete for slots: in which order they are served, and that none starves.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "treadle/team.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

using namespace std::chrono_literals;

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

void run(Team& team, Program& program, const Request& request) {
    void* bound[] = {&team};
    team.run(program, bound, request);
}

void run(Team& team, Program& program) { run(team, program, {}); }

}  // namespace

// Long runs occupy the team until they are cancelled. A short run takes turns with them; else it would hang.
TREADLE_TEST_WORKERS(a_short_run_does_not_wait_for_the_end_of_long_ones) {
    Team team("t", {workers, workers});
    const auto long_chain = chain(100'000, 1000);
    const auto short_chain = chain(1, 1000);
    Request cancellable;
    cancellable.token = std::make_shared<CancelToken>();
    std::vector<std::thread> clients;
    for (int i = 0; i < workers + 1; ++i) {
        clients.emplace_back([&] { CHECK_THROWS(RunCancelled, run(team, *long_chain, cancellable)); });
    }
    while (team.status().runs < workers + 1) std::this_thread::sleep_for(100us);
    for (int i = 0; i < 3; ++i) run(team, *short_chain);
    cancellable.token->cancel();
    for (auto& client : clients) client.join();
}

// Two workers execute a run of many independent tasks when a second client calls a run. That run gets the second worker
// at the next task, and not at the end of the first run's turn.
TREADLE_TEST(a_run_without_a_worker_gets_one_before_another_run_gets_a_second) {
    Team team("t", {2, 2});
    std::thread::id caller;
    std::atomic<bool> is_queued{false}, is_served{false};
    std::atomic<int> helped{0};   // tasks that the second worker has begun
    std::atomic<int> delayed{0};  // those of them that it began while the second run was queued
    Builder builder;
    builder.buffers.clear();
    for (int i = 0; i < 400; ++i) {
        builder.add_host([&](auto) {
            if (std::this_thread::get_id() == caller) {
                while (!is_served) std::this_thread::sleep_for(50us);
                return;
            }
            if (is_queued && !is_served) ++delayed;
            if (++helped > 1) return;
            while (team.status().waiting == 0) std::this_thread::sleep_for(50us);
            is_queued = true;
        });
    }
    const auto long_run = builder.build();
    Builder one;
    one.buffers.clear();
    one.add_host([&](auto) { is_served = true; });
    const auto short_run = one.build();
    for (int attempt = 0; attempt < 20; ++attempt) {
        is_queued = is_served = false;
        helped = 0;
        std::thread client([&] {
            caller = std::this_thread::get_id();
            team.run(*long_run, {});
        });
        while (helped == 0) std::this_thread::sleep_for(50us);
        team.run(*short_run, {});
        client.join();
    }
    CHECK_EQUAL(0, delayed.load());
}

// With turns, all runs would end as late as the last one. The estimates are so large that no run is overdue.
TREADLE_TEST(runs_of_equal_length_are_served_one_after_the_other) {
    Team team("t", {1, 1});
    constexpr std::size_t kRuns = 3, kSteps = 60;
    struct Client {
        Team* team;
        std::vector<Client*>* order;  // the client of each step; the team has one slot, so one step writes at a time
    };
    const Kernel note = [](void* const* pointers, const std::int64_t*, std::int64_t, void*) -> std::int32_t {
        auto& client = *static_cast<Client*>(pointers[0]);
        client.order->push_back(&client);
        while (client.order->size() == 1 && client.team->status().waiting < 2) std::this_thread::sleep_for(50us);
        std::this_thread::sleep_for(200us);
        return 0;
    };
    Builder builder;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(kSteps); ++i) {
        builder.add_kernel(note, {}, 1, 1e12);
        if (i > 0) builder.link(i - 1, i);
    }
    const auto program = builder.build();
    std::vector<Client*> order;
    std::vector<Client> clients(kRuns, {&team, &order});
    std::vector<std::thread> threads;
    for (Client& client : clients) {
        threads.emplace_back([&] {
            void* bound[] = {&client};
            team.run(*program, bound);
        });
    }
    for (auto& thread : threads) thread.join();
    std::size_t changes = 0;
    for (std::size_t i = 1; i < order.size(); ++i) changes += order[i] != order[i - 1];
    CHECK_EQUAL(kRuns * kSteps, order.size());
    CHECK_EQUAL(kRuns - 1, changes);
}

// Each run uses the arena that the run before it has returned, which is still in the caches.
TREADLE_TEST(queued_runs_hold_no_arena) {
    Team team("t", {1, 1});
    constexpr int kClients = 6;
    bool were_queued = false;
    Builder builder;
    const auto first = builder.add_host([&](auto) {
        while (!were_queued && team.status().waiting < kClients - 1) std::this_thread::sleep_for(50us);
        were_queued = true;
    });
    builder.link(first, builder.add_kernel(nap, {500}, 1, 1e9));
    const auto program = builder.build();
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) clients.emplace_back([&] { run(team, *program); });
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
    const auto overdue = chain(100'000, 1000, 10);
    const auto honest = chain(20, 1000);
    Request cancellable;
    cancellable.token = std::make_shared<CancelToken>();
    std::thread client([&] { CHECK_THROWS(RunCancelled, run(team, *overdue, cancellable)); });
    while (team.status().runs == 0) std::this_thread::sleep_for(100us);
    run(team, *honest);  // a hang is a failure
    cancellable.token->cancel();
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

// Two clients use a team of two slots; one pauses after each of its runs. Returns when compute workers have done at most
// a tenth of each client's runs. Other processes that take a CPU may spoil attempts; a hang is a failure.
void wait_until_they_keep_their_slots(std::chrono::microseconds pause) {
    Team team("t", {2, 2});
    for (;;) {
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
        if (std::max(most, others[others.size() / 2]) < 0.1) return;
    }
}

}  // namespace

// If a compute worker took the slot of a client between two runs, the client would find none when it returns, and that
// worker would serve it from then on.
TREADLE_TEST(a_slot_is_reserved_for_a_client_between_two_runs) { wait_until_they_keep_their_slots(0us); }

// The first client's runs take 4 ms.
TREADLE_TEST(a_slot_is_reserved_longer_for_longer_runs) { wait_until_they_keep_their_slots(1ms); }

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
    for (bool has_helped = true; has_helped;) {  // a busy machine may spoil attempts; a hang is a failure
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
    do {  // a busy machine may spoil attempts; a hang is a failure
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
        CHECK(team.status().workers <= 2);
        std::sort(helped.begin(), helped.end());
    } while (helped[2] <= 0.9);
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
    std::atomic<bool> is_held{false};
    Builder builder;
    builder.buffers.clear();
    builder.add_host([&](auto) {
        is_held = true;
        while (team.status().waiting < 3) std::this_thread::sleep_for(50us);
    });
    const auto holder = builder.build();
    std::string order;  // the team has one slot, so one step writes at a time
    std::vector<std::unique_ptr<Program>> programs;
    std::vector<std::thread> clients;
    clients.emplace_back([&] { team.run(*holder, {}); });
    while (!is_held) std::this_thread::sleep_for(50us);
    for (const int priority : {1, 3, 2}) {
        Builder three;
        three.buffers.clear();
        for (std::int64_t i = 0; i < 3; ++i) {
            three.add_host([&, priority](auto) { order += std::to_string(priority); });
            if (i > 0) three.link(i - 1, i);
        }
        programs.push_back(three.build());
        Request request;
        request.priority = priority;
        clients.emplace_back([&team, program = programs.back().get(), request] { team.run(*program, {}, request); });
    }
    for (auto& client : clients) client.join();
    CHECK_EQUAL(std::string("333222111"), order);
}

}  // namespace treadle::testing
