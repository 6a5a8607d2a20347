// Prints what the team itself costs: ns per empty task, and the latency of fork and join.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "treadle/control_flow.h"
#include "treadle/test_programs.h"

namespace treadle::testing {

namespace {

std::int32_t nothing(void* const*, const std::int64_t*, std::int64_t, void*) { return 0; }

// Returns the median over rounds of the time of one run, in ns.
double time_runs(Team& team, Program& program, int runs) {
    std::int64_t target = 0;
    void* bound[] = {&target};
    for (int i = 0; i < runs / 10 + 1; ++i) team.run(program, bound);
    std::vector<double> rounds;
    for (int round = 0; round < 9; ++round) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < runs; ++i) team.run(program, bound);
        const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
        rounds.push_back(taken.count() / runs);
    }
    std::sort(rounds.begin(), rounds.end());
    return rounds[rounds.size() / 2];
}

// `cost_ns` is the estimate of each task, which decides between the serial and the parallel path.
std::unique_ptr<Program> chain(int count, double cost_ns, std::int64_t chunks) {
    Builder builder;
    for (int i = 0; i < count; ++i) {
        builder.add_kernel(nothing, {}, chunks, cost_ns);
        if (i > 0) builder.link(i - 1, i);
    }
    return builder.build();
}

std::unique_ptr<Program> fan(int count, double cost_ns) {
    Builder builder;
    builder.add_kernel(nothing, {}, 1, cost_ns);
    for (int i = 1; i <= count; ++i) {
        builder.add_kernel(nothing, {}, 1, cost_ns);
        builder.link(0, i);
    }
    return builder.build();
}

// A loop whose body is `body` and carries nothing.
std::unique_ptr<Program> loop(std::shared_ptr<Program> body, int iterations) {
    LoopSpec spec;
    spec.body = std::move(body);
    spec.most = iterations;
    Builder builder;
    StepSpec step;
    step.host = make_loop(std::move(spec));
    step.pointers = {{0, 0}};
    builder.add(std::move(step));
    return builder.build();
}

void print(const char* what, double ns) { std::printf("%-58s %8.0f ns\n", what, ns); }

}  // namespace

}  // namespace treadle::testing

int main() {
    using namespace treadle::testing;
    constexpr int kTasks = 1000;
    const auto iterations = loop(chain(1, 0, 1), kTasks);
    const auto single = chain(1, 0, 1);
    const auto cheap_chain = chain(kTasks, 0, 1);
    const auto cheap_fan = fan(kTasks, 0);
    const auto costly_chain = chain(kTasks, kCostly, 1);
    const auto costly_fan = fan(kTasks, kCostly);
    const auto forks = chain(kTasks, kCostly, 2);
    {
        treadle::Team team("bench", {1, 1});
        print("1 worker: run of one empty task", time_runs(team, *single, 20000));
        print("1 worker: iteration of one empty task", time_runs(team, *iterations, 20) / kTasks);
        print("1 worker: empty task in a chain", time_runs(team, *cheap_chain, 200) / kTasks);
        print("1 worker: empty task in a fan", time_runs(team, *cheap_fan, 200) / kTasks);
    }
    for (const int workers : {2, 4}) {
        treadle::Team team("bench", {workers, workers});
        std::printf("%d workers\n", workers);
        print("  run of one empty task", time_runs(team, *single, 20000));
        print("  iteration of one empty task", time_runs(team, *iterations, 20) / kTasks);
        print("  empty task in a chain, known to be cheap", time_runs(team, *cheap_chain, 200) / kTasks);
        print("  empty task in a chain, claimed to be costly", time_runs(team, *costly_chain, 50) / kTasks);
        print("  empty task in a fan, claimed to be costly", time_runs(team, *costly_fan, 50) / kTasks);
        print("  fork and join of an op with one chunk a worker, spinning", time_runs(team, *forks, 50) / kTasks);
    }
    return 0;
}
