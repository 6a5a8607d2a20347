#include "treadle/program.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "treadle/context.h"
#include "treadle/fork.h"
#include "treadle/team.h"

namespace treadle {

namespace {

// Where is the entry that a message is about. Its text is made only for a message.
struct Where {
    const char* what;
    std::ptrdiff_t index = -1;
    const char* inner = nullptr;
    std::ptrdiff_t inner_index = -1;

    std::string text() const {
        std::string result = what;
        if (index >= 0) result += ' ' + std::to_string(index);
        if (inner != nullptr) result += std::string(", ") + inner + ' ' + std::to_string(inner_index);
        return result;
    }
};

Where entry(const char* what, std::size_t index) { return {what, static_cast<std::ptrdiff_t>(index)}; }

[[noreturn]] void reject(const Where& where, const std::string& fault) {
    throw std::invalid_argument(where.text() + ": " + fault);
}

std::int64_t require_at_least(const Where& where, const char* what, std::int64_t least, std::int64_t came) {
    if (came < least) {
        reject(where, std::string(what) + " must be at least " + std::to_string(least) + ", got " +
                          std::to_string(came));
    }
    return came;
}

void require_index(const Where& where, const char* what, std::int64_t came, std::size_t count) {
    if (came < 0 || static_cast<std::uint64_t>(came) >= count) {
        reject(where, std::string(what) + " must be in 0.." + std::to_string(count) + " (exclusive), got " +
                          std::to_string(came));
    }
}

void check_caps(std::span<const int> caps, std::size_t steps) {
    if (caps.size() != steps) {
        reject({"max_workers"},
               "wanted one number a step = " + std::to_string(steps) + ", got " + std::to_string(caps.size()));
    }
    for (std::size_t i = 0; i < steps; ++i) require_at_least(entry("step", i), "max_workers", 0, caps[i]);
}

std::vector<StepRef> refer_to(std::vector<StepSpec>& steps) {
    std::vector<StepRef> refs;
    refs.reserve(steps.size());
    for (StepSpec& step : steps) {
        refs.push_back({step.kernel, step.host ? &step.host : nullptr, step.pointers, step.args, step.chunks,
                        step.cost_ns, step.max_workers});
    }
    return refs;
}

}  // namespace

std::uint64_t next_program_id() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // only uniqueness matters: no partner
}

KernelFailure::KernelFailure(std::uint64_t of_program, std::int64_t failed_step, std::int32_t returned_code)
    : std::runtime_error("step " + std::to_string(failed_step) + ": kernel returned code " +
                         std::to_string(returned_code)),
      program(of_program),
      step(failed_step),
      code(returned_code) {}

StepFailure::StepFailure(std::int32_t returned_code)
    : std::runtime_error("a host step failed with code " + std::to_string(returned_code)), code(returned_code) {}

Program::Program(std::vector<StepSpec> steps, const std::vector<TaskSpec>& tasks,
                 const std::vector<std::vector<std::int64_t>>& successors, const std::vector<BufferSpec>& buffers,
                 std::int64_t arena_bytes, std::int64_t scratch_bytes, const HandOver& hand_over)
    : Program(refer_to(steps), tasks, successors, buffers, arena_bytes, scratch_bytes, hand_over) {}

Program::Program(std::span<const StepRef> steps, const std::vector<TaskSpec>& tasks,
                 const std::vector<std::vector<std::int64_t>>& successors, const std::vector<BufferSpec>& buffers,
                 std::int64_t arena_bytes, std::int64_t scratch_bytes, const HandOver& hand_over,
                 std::shared_ptr<Arenas> arenas, std::uint64_t id)
    : id_(id != 0 ? id : next_program_id()),
      hand_over_(hand_over),
      arenas_(arenas != nullptr ? std::move(arenas) : std::make_shared<Arenas>(false)) {
    set_memory(buffers, arena_bytes, scratch_bytes);
    add_steps(steps);
    add_tasks(tasks);
    add_successors(successors);
    set_numbers(steps, tasks);
}

Program::~Program() = default;

bool Program::renumber(std::span<const StepRef> steps, const std::vector<TaskSpec>& tasks,
                       const std::vector<BufferSpec>& buffers, std::int64_t arena_bytes, std::int64_t scratch_bytes) {
    {
        const std::lock_guard lock(context_mutex());
        if (in_use_ != 0) return false;
    }
    set_memory(buffers, arena_bytes, scratch_bytes);
    set_numbers(steps, tasks);
    const std::lock_guard lock(context_mutex());
    for (const std::unique_ptr<Context>& context : idle_) {
        context->pointers = constant_pointers_;
        context->resolved_arena = nullptr;
    }
    return true;
}

void Program::set_memory(const std::vector<BufferSpec>& buffers, std::int64_t arena_bytes,
                         std::int64_t scratch_bytes) {
    arena_bytes_ = static_cast<std::size_t>(require_at_least({"program"}, "arena_bytes", 0, arena_bytes));
    scratch_bytes_ = static_cast<std::size_t>(require_at_least({"program"}, "scratch_bytes", 0, scratch_bytes));
    buffers_ = buffers;
    bound_count_ = 0;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
        const std::int64_t value = buffers[i].value;
        if (buffers[i].kind == BufferKind::constant) continue;
        const Where where = entry("buffer", i);
        require_at_least(where, "value", 0, value);
        if (buffers[i].kind == BufferKind::arena && value > arena_bytes) {
            reject(where, "arena offset must be at most arena_bytes = " + std::to_string(arena_bytes) + ", got " +
                              std::to_string(value));
        }
        if (buffers[i].kind == BufferKind::bound) {
            // There are at most as many addresses as buffers, so a larger index is a fault.
            require_index(where, "bound index", value, buffers.size());
            bound_count_ = std::max(bound_count_, static_cast<std::size_t>(value) + 1);
        }
    }
}

void Program::set_numbers(std::span<const StepRef> steps, const std::vector<TaskSpec>& tasks) {
    set_steps(steps);
    set_tasks(tasks);
    sort_tasks();
    estimate_sharing();
    std::vector<int> caps;
    caps.reserve(steps.size());
    for (const StepRef& step : steps) caps.push_back(step.max_workers);
    check_caps(caps, steps_.size());
    store_caps(caps);
}

void Program::add_steps(std::span<const StepRef> steps) {
    std::size_t args = 0;
    std::size_t pointers = 0;
    steps_.reserve(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const StepRef& step = steps[i];
        if ((step.kernel != nullptr) == (step.host != nullptr)) {
            reject(entry("step", i), "wanted either a non-null kernel address or a callable");
        }
        steps_.push_back({step.kernel, HostCall(), nullptr, pointers, step.pointers.size(), 1});
        args += step.args.size();
        pointers += step.pointers.size();
    }
    args_.resize(args);
    step_costs_.resize(steps.size());
    constant_pointers_.reserve(pointers);
    arena_pointers_.reserve(pointers);
}

void Program::set_steps(std::span<const StepRef> steps) {
    constant_pointers_.clear();
    bound_pointers_.clear();
    arena_pointers_.clear();
    std::int64_t* args = args_.data();
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const StepRef& spec = steps[i];
        Step& step = steps_[i];
        const Where where = entry("step", i);
        require_at_least(where, "chunks", 0, spec.chunks);
        if (step.kernel == nullptr && spec.chunks != 1) {
            reject(where, "a callable takes no part in chunking: chunks must be 1, got " + std::to_string(spec.chunks));
        }
        if (!(spec.cost_ns >= 0)) reject(where, "cost_ns must be >= 0, got " + std::to_string(spec.cost_ns));
        add_pointers(i, spec.pointers);
        if (spec.host != nullptr) step.host = std::move(*spec.host);
        step.args = args;
        step.chunks = spec.chunks;
        step_costs_[i] = spec.cost_ns;
        args = std::ranges::copy(spec.args, args).out;
    }
}

void Program::add_pointers(std::size_t step, std::span<const PointerSpec> pointers) {
    for (std::size_t k = 0; k < pointers.size(); ++k) {
        const PointerSpec& pointer = pointers[k];
        const Where at{"step", static_cast<std::ptrdiff_t>(step), "pointer", static_cast<std::ptrdiff_t>(k)};
        require_index(at, "buffer", pointer.buffer, buffers_.size());
        require_at_least(at, "byte offset", 0, pointer.offset);
        const BufferSpec& buffer = buffers_[static_cast<std::size_t>(pointer.buffer)];
        const std::size_t number = constant_pointers_.size();
        std::byte* address = nullptr;
        switch (buffer.kind) {
            case BufferKind::bound:
                bound_pointers_.push_back({number, static_cast<std::size_t>(buffer.value), pointer.offset});
                break;
            case BufferKind::arena:
                arena_pointers_.push_back({number, buffer.value + pointer.offset});
                break;
            case BufferKind::constant:
                if (buffer.value != 0) address = reinterpret_cast<std::byte*>(buffer.value) + pointer.offset;
                break;
        }
        constant_pointers_.push_back(address);
    }
}

void Program::add_tasks(const std::vector<TaskSpec>& tasks) {
    std::vector<std::int64_t> owner(steps_.size(), -1);
    tasks_.reserve(tasks.size());
    for (std::size_t i = 0; i < tasks.size(); ++i) {
        const TaskSpec& spec = tasks[i];
        const Where where = entry("task", i);
        require_at_least(where, "step_count", 1, spec.step_count);
        require_index(where, "first_step", spec.first_step, steps_.size());
        if (spec.step_count > static_cast<std::int64_t>(steps_.size()) - spec.first_step) {
            reject(where, "steps must end by " + std::to_string(steps_.size()) + ", got first_step " +
                              std::to_string(spec.first_step) + " and step_count " +
                              std::to_string(spec.step_count));
        }
        const auto first = static_cast<std::size_t>(spec.first_step);
        const auto count = static_cast<std::size_t>(spec.step_count);
        for (std::size_t s = first; s < first + count; ++s) {
            if (owner[s] >= 0) {
                reject(where, "step " + std::to_string(s) + " already belongs to task " + std::to_string(owner[s]));
            }
            owner[s] = static_cast<std::int64_t>(i);
        }
        has_blocking_ = has_blocking_ || spec.blocking;
        tasks_.push_back({static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(count), 0, 0, false, 1, 0, 0, 0,
                          spec.blocking});
    }
    for (std::size_t s = 0; s < owner.size(); ++s) {
        if (owner[s] < 0) reject(entry("step", s), "belongs to no task");
    }
    caps_ = std::vector<std::atomic<int>>(tasks_.size());
}

void Program::set_tasks(const std::vector<TaskSpec>& tasks) {
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
        Task& task = tasks_[i];
        const double priority = tasks[i].priority;
        if (priority != priority) reject(entry("task", i), "priority must be a number, got nan");
        double cost = 0;
        for (std::size_t s = task.first_step; s < task.first_step + task.step_count; ++s) cost += step_costs_[s];
        const bool shared = task.step_count == 1 && !task.blocking;
        task.priority = priority;
        task.cost_ns = cost;
        const double elsewhere = hand_over_.step_elsewhere_ns() * static_cast<double>(task.step_count - 1);
        task.worth_sharing = cost - elsewhere >= hand_over_.worth_sharing_ns();
        task.chunks = shared ? std::max<std::int64_t>(steps_[task.first_step].chunks, 1) : 1;
    }
}

void Program::add_successors(const std::vector<std::vector<std::int64_t>>& successors) {
    if (successors.size() != tasks_.size()) {
        reject({"successors"}, "wanted one list a task = " + std::to_string(tasks_.size()) + ", got " +
                                 std::to_string(successors.size()));
    }
    for (std::size_t i = 0; i < successors.size(); ++i) {
        tasks_[i].first_successor = static_cast<std::uint32_t>(successors_.size());
        tasks_[i].successor_count = static_cast<std::uint32_t>(successors[i].size());
        for (const std::int64_t next : successors[i]) {
            require_index(entry("successors of task", i), "task", next, tasks_.size());
            successors_.push_back(static_cast<std::uint32_t>(next));
            ++tasks_[static_cast<std::size_t>(next)].predecessors;
        }
    }
}

void Program::sort_tasks() {
    std::vector<std::int32_t> pending;
    std::vector<std::uint32_t> ready;
    pending.reserve(tasks_.size());
    order_.clear();
    order_.reserve(tasks_.size());
    const auto less_urgent = [this](std::uint32_t a, std::uint32_t b) { return task_is_less_urgent(*this, a, b); };
    const auto make_ready = [&](std::uint32_t task) {
        ready.push_back(task);
        std::push_heap(ready.begin(), ready.end(), less_urgent);
    };
    for (std::uint32_t i = 0; i < tasks_.size(); ++i) {
        pending.push_back(tasks_[i].predecessors);
        if (pending[i] == 0) make_ready(i);
    }
    while (!ready.empty()) {
        std::pop_heap(ready.begin(), ready.end(), less_urgent);
        const std::uint32_t task = ready.back();
        ready.pop_back();
        order_.push_back(task);
        for (const std::uint32_t next : successors(tasks_[task])) {
            if (--pending[next] == 0) make_ready(next);
        }
    }
    if (order_.size() == tasks_.size()) return;
    std::string stuck;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
        if (pending[i] > 0) stuck.append(" ").append(std::to_string(i));
    }
    reject({"successors"}, "wanted an acyclic graph, got a cycle among or before tasks" + stuck);
}

void Program::estimate_sharing() {
    double total = 0;
    cost_ns_ = critical_path_ns_ = 0;
    std::vector<double> start(tasks_.size(), 0);
    for (const std::uint32_t i : order_) {
        const Task& task = tasks_[i];
        const double end = start[i] + task.cost_ns;
        for (const std::uint32_t next : successors(task)) start[next] = std::max(start[next], end);
        critical_path_ns_ = std::max(critical_path_ns_, end);
        if (task.worth_sharing) total += task.cost_ns;
        cost_ns_ += task.cost_ns;
    }
    independent_ns_ = std::max(0.0, total - critical_path_ns_);
    // The duration of a callable is unknown, so no work beside it counts as too small a part of the whole.
    const bool is_known = std::ranges::none_of(steps_, [](const Step& step) { return step.kernel == nullptr; });
    worth_sharing_ns_ = std::max(2 * hand_over_.worth_calling_spinner_ns(), is_known ? kWorthSharingPart * cost_ns_ : 0);
}

// Relaxed, partners: max_workers() and divisible_ns(). The threads that decide by them hold their scheduler's lock,
// under which reload_all_limits() has them read again. A run that an engine executes reads them without the lock as a
// hint, and again when the epoch has changed.
void Program::store_caps(std::span<const int> max_workers) {
    double divisible = 0;
    for (std::size_t i = 0; i < tasks_.size(); ++i) {
        const Task& task = tasks_[i];
        const int requested = max_workers[task.first_step];
        const int cap = task.chunks == 1 ? 1 : requested > 0 ? requested : kAnyWorkers;
        caps_[i].store(cap, std::memory_order_relaxed);
        if (task.worth_sharing && cap > 1) divisible += task.cost_ns / 2;
    }
    divisible_ns_.store(divisible, std::memory_order_relaxed);
}

void Program::set_caps(std::span<const int> max_workers) {
    check_caps(max_workers, steps_.size());
    {
        const std::lock_guard lock(context_mutex());  // of two concurrent changes the later one applies to all tasks
        store_caps(max_workers);
    }
    reload_all_limits();
}

void Program::check_bound(std::span<void* const> bound) const {
    if (bound.size() == bound_count_) return;
    reject({"run"}, "wanted " + std::to_string(bound_count_) + " bound addresses, got " + std::to_string(bound.size()));
}

std::unique_ptr<Context> Program::acquire(std::span<void* const> bound) {
    check_bound(bound);
    std::unique_ptr<Context> context;
    {
        const std::lock_guard lock(context_mutex());
        if (!idle_.empty()) {
            context = std::move(idle_.back());
            idle_.pop_back();
        }
        ++in_use_;
    }
    if (!context) {
        try {
            context = std::make_unique<Context>(*this);
        } catch (...) {
            const std::lock_guard lock(context_mutex());
            --in_use_;
            throw;
        }
    }
    bind(*context, bound);
    return context;
}

void Program::bind(Context& context, std::span<void* const> bound) const {
    check_bound(bound);
    for (const BoundPointer& p : bound_pointers_) {
        context.pointers[p.pointer] = static_cast<std::byte*>(bound[p.index]) + p.offset;
    }
}

void Program::lend_arena(Context& run) {
    const std::lock_guard lock(context_mutex());
    // Relaxed: written under the lock we hold.
    if (run.arena_is_lent.load(std::memory_order_relaxed)) return;
    run.arena = arenas_->take(arena_bytes_);
    if (run.resolved_arena != run.arena.data()) {
        run.resolved_arena = run.arena.data();
        for (const ArenaPointer& p : arena_pointers_) run.pointers[p.pointer] = run.resolved_arena + p.offset;
    }
    run.arena_is_lent.store(true, std::memory_order_release);  // see Context::arena_is_lent
}

void Program::reclaim_arena(Context& run) {
    const std::lock_guard lock(context_mutex());
    // Both relaxed: no worker is inside the run, and this lock orders the context's next run.
    if (!run.arena_is_lent.load(std::memory_order_relaxed)) return;
    run.arena_is_lent.store(false, std::memory_order_relaxed);
    arenas_->put(std::move(run.arena));
}

void Program::release(std::unique_ptr<Context> context) {
    reclaim_arena(*context);
    const std::lock_guard lock(context_mutex());
    idle_.push_back(std::move(context));
    --in_use_;
}

void Program::trim() {
    std::vector<std::unique_ptr<Context>> contexts;  // both declared first, so destroyed after the lock is released
    std::vector<Block> arenas;
    const std::lock_guard lock(context_mutex());
    arenas = arenas_->drain();
    contexts.swap(idle_);
}

std::size_t Program::arenas() const {
    const std::lock_guard lock(context_mutex());
    return arenas_->count();
}

std::size_t Program::contexts() const {
    const std::lock_guard lock(context_mutex());
    return idle_.size() + in_use_;
}

}  // namespace treadle
