// Program: a validated DAG of tasks made of steps, and the contexts that its runs use.
#pragma once

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "treadle/arenas.h"
#include "treadle/cost.h"
#include "treadle/mutex.h"
#include "treadle/prefetch.h"

namespace treadle {

struct Context;

// Kernel is the ABI of generated code. `pointers` are the addresses of the step's operands (outputs first, then
// inputs), `args` its immutable arguments, `chunk` is in 0..chunks-1, and `scratch` is a 64-byte-aligned block of the
// calling worker. Several workers may call it at once with different chunks. Returns 0, or a positive code, which ends
// the run with KernelFailure.
using Kernel = std::int32_t (*)(void* const* pointers, const std::int64_t* args, std::int64_t chunk, void* scratch);

// HostCall is a step in the host language. It is called once, on any thread; run() rethrows what it throws.
using HostCall = std::function<void(std::span<void* const> pointers)>;

// PointerSpec is an operand of a step: an offset in a buffer.
struct PointerSpec {
    std::int64_t buffer;  // index into the program's buffers
    std::int64_t offset;  // bytes, >= 0
};

// StepSpec describes a step.
struct StepSpec {
    Kernel kernel = nullptr;  // exactly one of `kernel` and `host` is set
    HostCall host;
    std::vector<PointerSpec> pointers;
    std::vector<std::int64_t> args;
    std::int64_t chunks = 1;  // 0: the step does nothing
    double cost_ns = 0;       // estimate for all chunks together; influences scheduling, never results
    int max_workers = 0;      // cap on the workers that may share its chunks; 0: none. See Program::set_caps()
};

// StepRef describes a step like StepSpec, in memory of the caller.
struct StepRef {
    Kernel kernel = nullptr;
    HostCall* host = nullptr;  // moved from
    std::span<const PointerSpec> pointers;
    std::span<const std::int64_t> args;
    std::int64_t chunks = 1;
    double cost_ns = 0;
    int max_workers = 0;
};

// TaskSpec describes a task: consecutive steps that the scheduler treats as one.
struct TaskSpec {
    std::int64_t first_step;
    std::int64_t step_count;
    double priority;  // length of the critical path from here, ns; higher starts first
    bool blocking;    // waits for something outside: runs on a blocking worker, without a slot
};

// BufferKind says where a buffer is: in the run's arena, at a constant address, or at an address given to run().
enum class BufferKind { arena, constant, bound };

// BufferSpec locates a buffer, which pointers count from.
struct BufferSpec {
    BufferKind kind;
    std::int64_t value;  // arena: byte offset; constant: address; bound: index into the addresses given to run()
};

// KernelFailure ends a run in which a kernel returned a non-zero code.
class KernelFailure : public std::runtime_error {
public:
    KernelFailure(std::uint64_t of_program, std::int64_t failed_step, std::int32_t returned_code);
    std::uint64_t program;  // Program::id() of the run's program, or of a body that a step of it ran
    std::int64_t step;
    std::int32_t code;
};

// StepFailure ends a run, like KernelFailure, with the code of a host step that throws it.
class StepFailure : public std::runtime_error {
public:
    explicit StepFailure(std::int32_t returned_code);
    std::int32_t code;
};

// kItemsDiffer is the code of a loop that has to stack items of unequal shapes. plan/status.py has its message.
inline constexpr std::int32_t kItemsDiffer = 4;
// kShapeDiffers is the code of a body whose result has a shape that it was not compiled for.
inline constexpr std::int32_t kShapeDiffers = 5;

// Step is a step as the scheduler executes it.
struct Step {
    Kernel kernel;
    HostCall host;
    const std::int64_t* args;   // into Program::args_
    std::size_t first_pointer;  // into Context::pointers
    std::size_t pointer_count;
    std::int64_t chunks;
};

inline constexpr int kAnyWorkers = INT_MAX;

// Task is a task as the scheduler sees it.
struct Task {
    std::uint32_t first_step;
    std::uint32_t step_count;
    double priority;
    double cost_ns;
    bool worth_sharing;   // long enough to pay for being executed by another worker
    std::int64_t chunks;  // > 1 only if the task is one step that may be drawn chunk by chunk
    std::uint32_t first_successor;
    std::uint32_t successor_count;
    std::int32_t predecessors;
    bool blocking;
};

// next_program_id() returns an id that no program has.
std::uint64_t next_program_id();

// Program does not change while runs use it, except for its lists of idle contexts and arenas, which have a lock, and for
// the caps of its steps, which are atomic. So any number of threads may run it at once. It must outlive its runs. Only
// renumber() changes the rest.
class Program {
public:
    // Throws std::invalid_argument whose text names the faulty entry, what is allowed, and its value.
    Program(std::vector<StepSpec> steps, const std::vector<TaskSpec>& tasks,
            const std::vector<std::vector<std::int64_t>>& successors, const std::vector<BufferSpec>& buffers,
            std::int64_t arena_bytes, std::int64_t scratch_bytes, const HandOver& hand_over = {});
    // Likewise. Programs with the same `arenas` share them; null: the program has its own. `id` is an id of
    // next_program_id() that programs with the same steps share; 0: the program gets its own.
    Program(std::span<const StepRef> steps, const std::vector<TaskSpec>& tasks,
            const std::vector<std::vector<std::int64_t>>& successors, const std::vector<BufferSpec>& buffers,
            std::int64_t arena_bytes, std::int64_t scratch_bytes, const HandOver& hand_over,
            std::shared_ptr<Arenas> arenas = nullptr, std::uint64_t id = 0);
    ~Program();
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;

    // acquire() returns an idle or new context whose bound buffers are at the addresses `bound`.
    // Throws std::invalid_argument for a wrong number of addresses, and std::bad_alloc.
    std::unique_ptr<Context> acquire(std::span<void* const> bound);
    // bind() moves the bound buffers of a context that no thread uses to the addresses `bound`. Throws
    // std::invalid_argument for a wrong number of addresses.
    void bind(Context& context, std::span<void* const> bound) const;
    // release() keeps a context for a later run. No thread may still use the context.
    void release(std::unique_ptr<Context> context);
    // lend_arena() lends the run an arena and resolves its pointers into it, unless the run has one. The first worker
    // of the run's first op calls it, without the scheduler's lock. So a queued run holds no memory, and a run uses the
    // arena that the last one has left in the caches. Throws std::bad_alloc.
    void lend_arena(Context& run);
    // reclaim_arena() takes the arena back from a run whose steps have all ended. It may be called under a scheduler's
    // lock.
    void reclaim_arena(Context& run);
    // trim() frees the idle contexts and arenas.
    void trim();
    // set_caps() sets for each step how many workers may share it, 0 for no cap, from the next op boundary on, also of
    // runs in progress. Any thread that holds no lock of the core may call it. Throws std::invalid_argument, and then
    // changes nothing, for a wrong count or a negative cap.
    void set_caps(std::span<const int> max_workers);
    // renumber() replaces everything that depends on sizes: arguments, offsets, chunks, costs, caps, priorities, memory
    // and host calls. The arguments are those of the constructor. Kernels, numbers of arguments and pointers, kinds of buffers,
    // and tasks but for their priorities must be those of this program. Returns false, and changes nothing, if a run
    // uses the program. No run may begin, and no caps may be set, meanwhile. After an exception the program must not be
    // used.
    bool renumber(std::span<const StepRef> steps, const std::vector<TaskSpec>& tasks,
                  const std::vector<BufferSpec>& buffers, std::int64_t arena_bytes, std::int64_t scratch_bytes);
    // prefetch() starts loading what renumber() changes.
    void prefetch() const {
        treadle::prefetch(args_, steps_, step_costs_, tasks_, caps_, successors_, order_, buffers_, constant_pointers_,
                          bound_pointers_, arena_pointers_);
    }
    // max_workers() returns how many workers may share the task; kAnyWorkers if its step has no cap.
    int max_workers(std::uint32_t task) const {
        return caps_[task].load(std::memory_order_relaxed);  // partner: store_caps()
    }
    // contexts() returns how many contexts exist, idle and in use.
    std::size_t contexts() const;
    // arenas() returns how many arenas exist, idle and lent, for this program and those that share them.
    std::size_t arenas() const;

    std::uint64_t id() const { return id_; }
    // hand_over() returns the costs, on the machine that the estimates are for, of handing its work to other threads.
    const HandOver& hand_over() const { return hand_over_; }
    std::size_t arena_bytes() const { return arena_bytes_; }
    // constant_pointers() returns the pointers of all steps, flat; null for those that depend on the run.
    const std::vector<void*>& constant_pointers() const { return constant_pointers_; }
    std::size_t scratch_bytes() const { return scratch_bytes_; }
    std::span<const Step> steps() const { return steps_; }
    std::span<const Task> tasks() const { return tasks_; }
    std::span<const std::uint32_t> successors(const Task& task) const {
        return {successors_.data() + task.first_successor, task.successor_count};
    }
    // order() returns all tasks in a topological order that takes the most urgent ready task next.
    std::span<const std::uint32_t> order() const { return order_; }
    // divisible_ns() and independent_ns() estimate the work that other workers could take from the caller: as chunks of
    // its ops, and as ops beside the critical path.
    double divisible_ns() const { return divisible_ns_.load(std::memory_order_relaxed); }  // partner: store_caps()
    double independent_ns() const { return independent_ns_; }
    // worth_sharing_ns() returns how much of it they must be able to take for the parallel path to pay.
    double worth_sharing_ns() const { return worth_sharing_ns_; }
    // cost_ns() estimates the work of all tasks, critical_path_ns() that of the longest path of them.
    double cost_ns() const { return cost_ns_; }
    // fitted_cost_ns() is cost_ns() in the time unit of HandOver::fitted_ns().
    double fitted_cost_ns() const { return hand_over_.fitted_ns(cost_ns_); }
    double critical_path_ns() const { return critical_path_ns_; }
    bool has_blocking() const { return has_blocking_; }

private:
    struct BoundPointer {
        std::size_t pointer;
        std::size_t index;
        std::int64_t offset;
    };
    struct ArenaPointer {
        std::size_t pointer;
        std::int64_t offset;
    };

    void add_steps(std::span<const StepRef> steps);
    void add_tasks(const std::vector<TaskSpec>& tasks);
    void set_memory(const std::vector<BufferSpec>& buffers, std::int64_t arena_bytes, std::int64_t scratch_bytes);
    void set_numbers(std::span<const StepRef> steps, const std::vector<TaskSpec>& tasks);
    void set_steps(std::span<const StepRef> steps);
    void set_tasks(const std::vector<TaskSpec>& tasks);
    void add_pointers(std::size_t step, std::span<const PointerSpec> pointers);
    void add_successors(const std::vector<std::vector<std::int64_t>>& successors);
    void sort_tasks();
    void estimate_sharing();
    void store_caps(std::span<const int> max_workers);
    void check_bound(std::span<void* const> bound) const;

    std::uint64_t id_;
    HandOver hand_over_;
    std::size_t arena_bytes_ = 0;
    std::size_t scratch_bytes_ = 0;
    std::size_t bound_count_ = 0;
    std::vector<std::int64_t> args_;  // of all steps, flat
    std::vector<Step> steps_;
    std::vector<double> step_costs_;
    std::vector<Task> tasks_;
    std::vector<std::atomic<int>> caps_;  // of tasks; store_caps() stores, max_workers() loads
    std::vector<std::uint32_t> successors_;
    std::vector<std::uint32_t> order_;
    double cost_ns_ = 0;
    double critical_path_ns_ = 0;
    double independent_ns_ = 0;
    double worth_sharing_ns_ = 0;
    std::atomic<double> divisible_ns_{0};
    bool has_blocking_ = false;

    std::vector<BufferSpec> buffers_;
    std::vector<void*> constant_pointers_;
    std::vector<BoundPointer> bound_pointers_;
    std::vector<ArenaPointer> arena_pointers_;

    std::vector<std::unique_ptr<Context>> idle_;  // guarded by context_mutex()
    std::size_t in_use_ = 0;                      // guarded by context_mutex()
    std::shared_ptr<Arenas> arenas_;              // its content is guarded by context_mutex()
};

}  // namespace treadle
