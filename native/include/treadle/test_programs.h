// Programs for tests and benchmarks: DAGs whose result shows whether each task ran once and in order.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "treadle/check.h"
#include "treadle/data_stage.h"
#include "treadle/program.h"
#include "treadle/program_template.h"
#include "treadle/team.h"

namespace treadle::testing {

inline constexpr double kCostly = 1e6;  // an estimate for which any other worker pays, even one that has to be started

// raise_to() raises `most` to `value` if it is lower. Any thread may call it.
inline void raise_to(std::atomic<int>& most, int value) {
    int before = most;
    while (before < value && !most.compare_exchange_weak(before, value)) {
    }
}

// Builder collects tasks of one step each.
struct Builder {
    std::vector<StepSpec> steps;
    std::vector<TaskSpec> tasks;
    std::vector<std::vector<std::int64_t>> successors;
    std::vector<BufferSpec> buffers{{BufferKind::bound, 0}};
    std::int64_t arena_bytes = 64;

    std::int64_t add(StepSpec step, double priority = 0, bool blocking = false) {
        const auto index = static_cast<std::int64_t>(steps.size());
        steps.push_back(std::move(step));
        tasks.push_back({index, 1, priority, blocking});
        successors.emplace_back();
        return index;
    }
    std::int64_t add_kernel(Kernel kernel, std::vector<std::int64_t> args, std::int64_t chunks = 1,
                            double cost_ns = kCostly, double priority = 0) {
        StepSpec step;
        step.kernel = kernel;
        step.pointers = {{0, 0}};
        step.args = std::move(args);
        step.chunks = chunks;
        step.cost_ns = cost_ns;
        return add(std::move(step), priority);
    }
    std::int64_t add_host(HostCall host, bool blocking = false) {
        StepSpec step;
        step.host = std::move(host);
        step.cost_ns = kCostly;
        return add(std::move(step), 0, blocking);
    }
    void link(std::int64_t from, std::int64_t to) { successors[static_cast<std::size_t>(from)].push_back(to); }
    std::unique_ptr<Program> build(std::int64_t scratch_bytes = 0) const {
        return std::make_unique<Program>(steps, tasks, successors, buffers, arena_bytes, scratch_bytes);
    }
};

// one_step() makes the spec of a template that has only this step, in a task of its own.
inline TemplateSpec one_step(StepTemplate step, std::vector<BufferSpec> buffers) {
    TemplateSpec spec;
    spec.buffers = std::move(buffers);
    spec.steps = {std::move(step)};
    spec.tasks = {{0, 1, 0, false}};
    spec.successors = {{}};
    return spec;
}

// sized_step() makes a program whose only step is `host`, which reads what the second and third bound memory hold and
// tells the size of the first: cells of 8 bytes.
inline std::unique_ptr<Program> sized_step(HostCall host) {
    StepSpec step;
    step.host = std::move(host);
    step.pointers = {{0, 0}, {1, 0}, {2, 0}};
    step.cost_ns = kCostly;
    Builder builder;
    builder.buffers = {{BufferKind::bound, 0}, {BufferKind::bound, 1}, {BufferKind::bound, 2}};
    builder.add(std::move(step));
    return builder.build();
}

// run_sized() runs a program of sized_step() and returns the cells that it gives.
inline std::vector<std::int64_t> run_sized(Program& program, Team& team, void* first, void* second) {
    SizedMemory output;
    void* bound[] = {&output, first, second};
    team.run(program, bound);
    const auto* const found = reinterpret_cast<const std::int64_t*>(output.memory->data());
    return {found, found + output.shape.at(0)};
}

// while_limits_change() calls `work` while another thread sets limits of the team from 1 to `most`.
template <typename Work>
void while_limits_change(Team& team, unsigned most, const Work& work) {
    std::atomic<bool> stop{false};
    std::thread changer([&] {
        std::mt19937 random(1);
        while (!stop) {
            team.set_limits({1 + static_cast<int>(random() % most), 1 + static_cast<int>(random() % most)});
            std::this_thread::sleep_for(std::chrono::microseconds(200));
        }
    });
    work();
    stop = true;
    changer.join();
}

// RandomDag is a program of `count` tasks with random edges and chunks. Each chunk adds its task's number and the sum
// of its predecessors' cells to its own cell. Cells are plain memory, so a violated dependency gives a wrong sum, and a
// data race that ThreadSanitizer reports.
class RandomDag {
public:
    using Cells = std::vector<std::uint64_t>;

    // The task numbered `failing`, if not negative, returns code 7 instead.
    RandomDag(std::uint64_t seed, int count, int spin = 50, std::int64_t failing = -1) {
        std::mt19937_64 random(seed);
        Builder builder;
        expected_.resize(static_cast<std::size_t>(count) * kMaxChunks);
        for (std::int64_t i = 0; i < count; ++i) {
            std::vector<std::int64_t> args{i, spin, 0};
            for (int k = 0; i > 0 && k < 3; ++k) {
                if (random() % 3 == 0) continue;
                args.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(i)));
                ++args[2];
            }
            const auto chunks = static_cast<std::int64_t>(1 + random() % kMaxChunks);
            const auto task = builder.add_kernel(i == failing ? &fail : &kernel, args, chunks, random() % 2 ? kCostly : 100,
                                                 static_cast<double>(random() % 100));
            for (std::size_t k = 3; k < args.size(); ++k) builder.link(args[k], task);
            void* pointers[] = {expected_.data()};
            for (std::int64_t chunk = 0; chunk < chunks; ++chunk) kernel(pointers, args.data(), chunk, nullptr);
        }
        program_ = builder.build();
    }

    Program& program() { return *program_; }

    void run(Team& team, const Request& request = {}) {
        Cells cells(expected_.size());
        void* bound[] = {cells.data()};
        team.run(*program_, bound, request);
        CHECK(cells == expected_);
    }

    void run_failing(Team& team, std::int64_t failing) {
        Cells cells(expected_.size());
        void* bound[] = {cells.data()};
        try {
            team.run(*program_, bound);
        } catch (const KernelFailure& failure) {
            CHECK_EQUAL(failing, failure.step);
            return;
        }
        CHECK(false && "the failure was lost");
    }

private:
    static std::int32_t fail(void* const*, const std::int64_t*, std::int64_t, void*) { return 7; }

    static constexpr std::int64_t kMaxChunks = 6;

    static std::int32_t kernel(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void*) {
        auto* const cells = static_cast<std::uint64_t*>(pointers[0]);
        auto sum = static_cast<std::uint64_t>(args[0] + 1);
        for (std::int64_t k = 0; k < args[1]; ++k) {
            volatile std::int64_t sink = k;
            static_cast<void>(sink);
        }
        for (std::int64_t p = 0; p < args[2]; ++p) {
            for (std::int64_t c = 0; c < kMaxChunks; ++c) sum += cells[args[3 + p] * kMaxChunks + c];
        }
        cells[args[0] * kMaxChunks + chunk] += sum;
        return 0;
    }

    Cells expected_;
    std::unique_ptr<Program> program_;
};

}  // namespace treadle::testing
