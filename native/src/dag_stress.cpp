// Random DAGs on random teams: `treadle_native_stress GRAPHS [FIRST_SEED]`. Each must give the correct result, or fail
// at the chosen task. A hang ends the process and names the seed.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include <unistd.h>

#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

constexpr unsigned kMostSeconds = 60;
constexpr int kGraphsPerTeam = 20;
volatile std::sig_atomic_t hung_seed = 0;

void hang(int) {
    std::fprintf(stderr, "HANG: seed %ld after %u s\n", static_cast<long>(hung_seed), kMostSeconds);
    std::abort();
}

// Returns 2 to 2000, small numbers as often as large ones.
int size_of_graph(std::mt19937_64& random) {
    const int octave = static_cast<int>(random() % 10);
    const int low = 2 << octave;
    return std::min(2000, low + static_cast<int>(random() % static_cast<std::uint64_t>(low)));
}

int up_to(std::mt19937_64& random, int most) { return 1 + static_cast<int>(random() % static_cast<std::uint64_t>(most)); }

// Runs the graph from several clients at once on the same team.
void run_by_clients(RandomDag& dag, Team& team, Limits limits, int clients) {
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(clients));
    std::vector<std::thread> threads;
    for (auto& failure : failures) {
        threads.emplace_back([&] {
            try {
                dag.run(team, Request(limits));
            } catch (...) {
                failure = std::current_exception();
            }
        });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& failure : failures) {
        if (failure) std::rethrow_exception(failure);
    }
}

// Runs the graph from inside steps of another program, each of which waits for its run.
void run_nested(RandomDag& dag, Team& team, int forks) {
    Builder builder;
    for (int i = 0; i < forks; ++i) {
        builder.add_host([&](std::span<void* const>) { dag.run(team); }, i % 3 == 2);
    }
    void* bound[] = {&dag};
    team.run(*builder.build(), bound);
}

void one_graph(std::uint64_t seed, Team& team, std::mt19937_64& random) {
    const int count = size_of_graph(random);
    const int spin = static_cast<int>(random() % 40);
    RandomDag dag(seed, count, spin);
    const Limits limits = random() % 2 ? Limits{} : Limits{up_to(random, 16), up_to(random, 16)};
    switch (random() % 4) {
        case 0: {
            const auto failing = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
            RandomDag(seed, count, spin, failing).run_failing(team, failing);
            break;
        }
        case 1:
            run_nested(dag, team, up_to(random, 4));
            break;
        case 2:
            run_by_clients(dag, team, limits, up_to(random, 3));
            break;
        default:
            dag.run(team, Request(limits));
    }
}

}  // namespace

int stress(std::uint64_t graphs, std::uint64_t first) {
    std::signal(SIGALRM, hang);
    std::unique_ptr<Team> team;
    std::uint64_t wrong = 0;
    for (std::uint64_t i = 0; i < graphs; ++i) {
        const std::uint64_t seed = first + i;
        std::mt19937_64 random(seed * 2654435761u + 1);
        if (i % kGraphsPerTeam == 0) {
            team = std::make_unique<Team>("stress", Limits{up_to(random, 16), up_to(random, 16)});
        }
        hung_seed = static_cast<std::sig_atomic_t>(seed);
        alarm(kMostSeconds);
        try {
            one_graph(seed, *team, random);
        } catch (const std::exception& failure) {
            std::fprintf(stderr, "WRONG: seed %llu: %s\n", static_cast<unsigned long long>(seed), failure.what());
            ++wrong;
        }
        if ((i + 1) % 10'000 == 0) std::fprintf(stderr, "%llu graphs\n", static_cast<unsigned long long>(i + 1));
    }
    alarm(0);
    std::printf("%llu graphs, %llu wrong, 0 hangs\n", static_cast<unsigned long long>(graphs),
                static_cast<unsigned long long>(wrong));
    return wrong == 0 ? 0 : 1;
}

}  // namespace treadle::testing

int main(int count, char** arguments) {
    const std::uint64_t graphs = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1000;
    const std::uint64_t first = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 0;
    return treadle::testing::stress(graphs, first);
}
