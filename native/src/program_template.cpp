#include "treadle/program_template.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>

#include "treadle/fork.h"

namespace treadle {

namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kMostOffset = std::int64_t{1} << 60;  // adding an offset in the arena cannot overflow

std::string name(const char* what, std::size_t index) { return std::string(what) + ' ' + std::to_string(index); }

[[noreturn]] void reject(const std::string& where, const std::string& fault) {
    throw std::invalid_argument(where + ": " + fault);
}

[[noreturn]] void fail(BindingFailure::Kind kind, std::size_t index, const std::string& text) {
    throw BindingFailure(kind, static_cast<std::int64_t>(index), text);
}

std::uint64_t next_template_id() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // only uniqueness matters: no partner
}

}  // namespace

ProgramTemplate::ProgramTemplate(Binder binder, TemplateSpec spec)
    : id_(next_template_id()), binder_(std::move(binder)), spec_(std::move(spec)) {
    add_steps();
    check_buffers();
    add_rivals();
    binder_.require_integer("scratch_bytes", spec_.scratch_bytes);
    for (std::size_t i = 0; i < spec_.guards.size(); ++i) binder_.require_integer(name("guard", i), spec_.guards[i]);
    for (std::size_t i = 0; i < spec_.requested.size(); ++i) {
        binder_.require_integer(name("requested size", i), spec_.requested[i]);
    }
    sort_tasks();
}

void ProgramTemplate::add_steps() {
    const std::vector<StepTemplate> steps = std::exchange(spec_.steps, {});
    steps_.reserve(steps.size());
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const StepTemplate& step = steps[i];
        const std::string where = name("step", i);
        for (std::size_t k = 0; k < step.pointers.size(); ++k) {
            const auto& [buffer, offset] = step.pointers[k];
            const std::string at = where + ", " + name("pointer", k);
            if (buffer < 0 || static_cast<std::uint64_t>(buffer) >= spec_.buffers.size()) {
                reject(at, "buffer must be in 0.." + std::to_string(spec_.buffers.size()) + " (exclusive), got " +
                               std::to_string(buffer));
            }
            binder_.require_integer(at, offset);
            pointers_.push_back({static_cast<std::int32_t>(buffer), static_cast<std::int32_t>(offset)});
        }
        for (std::size_t k = 0; k < step.args.size(); ++k) {
            binder_.require_integer(where + ", " + name("argument", k), step.args[k]);
            args_.push_back(static_cast<std::int32_t>(step.args[k]));
        }
        binder_.require_integer(where + ", chunks", step.chunks);
        binder_.require_real(where + ", cost", step.cost_ns);
        if (step.kernel == nullptr) ++hosts_;
        steps_.push_back({step.kernel, static_cast<std::uint32_t>(step.args.size()),
                          static_cast<std::uint32_t>(step.pointers.size()), static_cast<std::int32_t>(step.chunks),
                          static_cast<std::int32_t>(step.cost_ns), step.max_workers});
    }
}

void ProgramTemplate::check_buffers() {
    for (std::size_t i = 0; i < spec_.buffers.size(); ++i) {
        const BufferSpec& buffer = spec_.buffers[i];
        if (buffer.kind == BufferKind::arena) {
            binder_.require_integer(name("buffer", i) + ", size", buffer.value);
            in_arena_.push_back(i);
        } else if (buffer.kind == BufferKind::bound) {
            bound_ = std::max(bound_, static_cast<std::size_t>(std::max<std::int64_t>(buffer.value, -1) + 1));
        }
    }
}

void ProgramTemplate::add_rivals() {
    const auto is_in_arena = [this](std::int64_t buffer) {
        return buffer >= 0 && static_cast<std::uint64_t>(buffer) < spec_.buffers.size() &&
               spec_.buffers[static_cast<std::size_t>(buffer)].kind == BufferKind::arena;
    };
    first_rival_.assign(spec_.buffers.size() + 1, 0);
    for (std::size_t i = 0; i < spec_.rivals.size(); ++i) {
        const auto [a, b] = spec_.rivals[i];
        if (!is_in_arena(a) || !is_in_arena(b) || a == b) {
            reject(name("rivals", i), "wanted two buffers in the arena, got " + std::to_string(a) + " and " +
                                          std::to_string(b));
        }
        ++first_rival_[static_cast<std::size_t>(a) + 1];
        ++first_rival_[static_cast<std::size_t>(b) + 1];
    }
    std::partial_sum(first_rival_.begin(), first_rival_.end(), first_rival_.begin());
    rivals_.resize(first_rival_.back());
    std::vector<std::uint32_t> next = first_rival_;
    for (const auto& [first, second] : spec_.rivals) {
        const auto a = static_cast<std::uint32_t>(first);
        const auto b = static_cast<std::uint32_t>(second);
        rivals_[next[a]++] = b;
        rivals_[next[b]++] = a;
    }
}

// Has the constructor of a program check the rest, with sizes that are allowed.
void ProgramTemplate::sort_tasks() {
    Parts parts;
    std::vector<HostCall> hosts(steps_.size(), HostCall([](std::span<void* const>) {}));
    parts.pointers.reserve(pointers_.size());
    parts.buffers = spec_.buffers;
    for (const std::size_t i : in_arena_) parts.buffers[i].value = 0;
    for (const Pointer& pointer : pointers_) parts.pointers.push_back({pointer.buffer, 0});
    auto pointers = std::span<const PointerSpec>(parts.pointers);
    for (const FlatStep& step : steps_) {
        HostCall* const host = step.kernel == nullptr ? &hosts[parts.steps.size()] : nullptr;
        parts.steps.push_back({step.kernel, host, pointers.first(step.pointer_count), {}, 1, 0, step.max_workers});
        pointers = pointers.subspan(step.pointer_count);
    }
    parts.tasks = spec_.tasks;
    for (TaskSpec& task : parts.tasks) task.priority = 0;
    const Program program(std::span<const StepRef>(parts.steps), parts.tasks, spec_.successors, parts.buffers, 0, 0,
                          spec_.hand_over);
    order_.assign(program.order().begin(), program.order().end());
}

ProgramTemplate::Sizes ProgramTemplate::evaluate(std::span<const std::int64_t> symbols) const {
    Sizes sizes;
    sizes.owner_ = id_;
    sizes.slots_ = binder_.evaluate(symbols);
    check(sizes);
    return sizes;
}

const ProgramTemplate::Sizes& ProgramTemplate::evaluate(Rebinding& rebinding,
                                                        std::span<const std::int64_t> symbols) const {
    update(rebinding, symbols);
    check(rebinding.sizes_);
    return rebinding.sizes_;
}

const ProgramTemplate::Sizes* ProgramTemplate::served(Rebinding& rebinding, std::span<const std::int64_t> symbols) const {
    update(rebinding, symbols);
    const Sizes& sizes = rebinding.sizes_;
    if (std::ranges::any_of(spec_.guards, [&](std::int64_t guard) { return sizes[guard] == 0; })) return nullptr;
    check_requested(sizes);
    return &sizes;
}

// Computes the slots for the symbols' values.
void ProgramTemplate::update(Rebinding& rebinding, std::span<const std::int64_t> symbols) const {
    Sizes& sizes = rebinding.sizes_;
    if (sizes.owner_ == id_) {
        prefetch(rebinding);
        sizes.owner_ = 0;  // if an operation fails, the slots hold values for several combinations of sizes
        binder_.update(sizes.slots_, symbols);
    } else {
        sizes.slots_ = binder_.evaluate(symbols);
    }
    sizes.owner_ = id_;
}

bool ProgramTemplate::rebind(Rebinding& rebinding, Program& program, std::span<const Location> outputs,
                             std::span<const int> max_workers, std::span<HostCall> hosts) const {
    Parts& parts = rebinding.parts_;
    program.prefetch();
    compute(parts, rebinding.sizes_, outputs, max_workers, hosts);
    return program.renumber(parts.steps, parts.tasks, parts.buffers, parts.arena_bytes, parts.scratch_bytes);
}

// Starts loading all that binding reads. Runs since the last binding have evicted it from the caches.
void ProgramTemplate::prefetch(const Rebinding& rebinding) const {
    const Parts& parts = rebinding.parts_;
    binder_.prefetch();
    treadle::prefetch(rebinding.sizes_.slots_, steps_, args_, pointers_, in_arena_, first_rival_, rivals_, order_,
                      spec_.buffers, spec_.tasks, parts.args, parts.pointers, parts.steps, parts.tasks, parts.buffers,
                      parts.moved, parts.bytes, parts.begins);
}

void ProgramTemplate::check(const Sizes& sizes) const {
    for (std::size_t i = 0; i < spec_.guards.size(); ++i) {
        if (sizes[spec_.guards[i]] == 0) fail(BindingFailure::Kind::guard, i, name("guard", i) + " does not hold");
    }
    check_requested(sizes);
}

void ProgramTemplate::check_requested(const Sizes& sizes) const {
    for (std::size_t i = 0; i < spec_.requested.size(); ++i) {
        const std::int64_t value = sizes[spec_.requested[i]];
        if (value < 0) {
            fail(BindingFailure::Kind::requested, i, name("requested size", i) + " is " + std::to_string(value));
        }
    }
}

std::vector<std::int64_t> ProgramTemplate::requested(const Sizes& sizes) const {
    return values_of(sizes, std::span<const std::int64_t>(spec_.requested));
}

std::vector<std::int64_t> ProgramTemplate::args(const Sizes& sizes, std::size_t step) const {
    if (step >= steps_.size()) {
        reject("step", "wanted a number below " + std::to_string(steps_.size()) + ", got " + std::to_string(step));
    }
    std::size_t first = 0;
    for (std::size_t i = 0; i < step; ++i) first += steps_[i].arg_count;
    return values_of(sizes, std::span<const std::int32_t>(args_).subspan(first, steps_[step].arg_count));
}

std::vector<std::size_t> ProgramTemplate::hosts() const {
    std::vector<std::size_t> numbers;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        if (steps_[i].kernel == nullptr) numbers.push_back(i);
    }
    return numbers;
}

template <typename Number>
std::vector<std::int64_t> ProgramTemplate::values_of(const Sizes& sizes, std::span<const Number> slots) const {
    if (sizes.owner_ != id_) reject("sizes", "wanted those of this template");
    std::vector<std::int64_t> values;
    values.reserve(slots.size());
    for (const Number slot : slots) values.push_back(sizes[slot]);
    return values;
}

void ProgramTemplate::compute(Parts& parts, const Sizes& sizes, std::span<const Location> outputs,
                              std::span<const int> max_workers, std::span<HostCall> hosts) const {
    if (sizes.owner_ != id_) reject("sizes", "wanted those of this template");
    if (hosts.size() != hosts_) {
        reject("hosts", "wanted one for each step without a kernel = " + std::to_string(hosts_) + ", got " +
                            std::to_string(hosts.size()));
    }
    if (!max_workers.empty() && max_workers.size() != steps_.size()) {
        reject("max_workers", "wanted one number a step = " + std::to_string(steps_.size()) + ", got " +
                                  std::to_string(max_workers.size()));
    }
    locate(parts, outputs);
    assign_arena(parts, sizes);
    compute_steps(parts, sizes, max_workers, hosts);
    set_priorities(parts);
    parts.scratch_bytes = sizes[spec_.scratch_bytes];
    if (parts.scratch_bytes < 0) fail(BindingFailure::Kind::scratch, 0, "the size of the scratch is negative");
}

// Sets the buffers of `parts` but for the offsets of those in the arena.
void ProgramTemplate::locate(Parts& parts, std::span<const Location> outputs) const {
    parts.buffers = spec_.buffers;
    parts.moved.assign(parts.buffers.size(), 0);
    if (outputs.empty()) return;
    if (outputs.size() > bound_) {
        reject("outputs", "wanted at most " + std::to_string(bound_) + ", got " + std::to_string(outputs.size()));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        const auto [memory, offset] = outputs[i];
        if (memory < 0 || static_cast<std::uint64_t>(memory) >= outputs.size()) {
            reject(name("output", i), "memory must be in 0.." + std::to_string(outputs.size()) +
                                          " (exclusive), got " + std::to_string(memory));
        }
        if (offset < 0 || offset > kMostOffset) {
            reject(name("output", i), "byte offset must be in 0..2**60, got " + std::to_string(offset));
        }
    }
    const std::size_t inputs = bound_ - outputs.size();
    for (std::size_t i = 0; i < parts.buffers.size(); ++i) {
        BufferSpec& buffer = parts.buffers[i];
        if (buffer.kind != BufferKind::bound || static_cast<std::size_t>(buffer.value) < inputs) continue;
        const Location& location = outputs[static_cast<std::size_t>(buffer.value) - inputs];
        buffer.value = static_cast<std::int64_t>(inputs) + location.memory;
        parts.moved[i] = location.offset;
    }
}

// Sets the offsets of the buffers in the arena. If all have the sizes of the last call, their offsets stay.
void ProgramTemplate::assign_arena(Parts& parts, const Sizes& sizes) const {
    bool is_placed = parts.bytes.size() == parts.buffers.size();
    parts.bytes.resize(parts.buffers.size());
    for (const std::size_t i : in_arena_) {
        const std::int64_t bytes = sizes[spec_.buffers[i].value];
        is_placed = is_placed && bytes == parts.bytes[i];
        parts.bytes[i] = bytes;
        if (bytes < 0) {
            fail(BindingFailure::Kind::buffer, i, name("buffer", i) + " has " + std::to_string(bytes) + " bytes");
        }
    }
    if (!is_placed) place_buffers(parts);
    for (const std::size_t i : in_arena_) parts.buffers[i].value = parts.begins[i];
}

// Gives each buffer in the arena, largest first, the lowest offset at which it overlaps no rival.
void ProgramTemplate::place_buffers(Parts& parts) const {
    struct Extent {
        std::int64_t begin;
        std::int64_t end;
    };
    const std::vector<std::int64_t>& bytes = parts.bytes;
    std::vector<Extent> extents(bytes.size(), {-1, -1});  // `begin` is -1 until the buffer has an offset
    std::vector<std::size_t> order = in_arena_;
    parts.begins.resize(bytes.size());
    parts.arena_bytes = 0;
    std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
        return bytes[a] > bytes[b] || (bytes[a] == bytes[b] && a < b);
    });
    std::vector<Extent> taken;
    for (const std::size_t i : order) {
        taken.clear();
        for (std::size_t k = first_rival_[i]; k < first_rival_[i + 1]; ++k) {
            const Extent& rival = extents[rivals_[k]];
            if (rival.begin >= 0) taken.push_back(rival);
        }
        std::ranges::sort(taken, [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
        if (bytes[i] > kMostArena) fail(BindingFailure::Kind::arena, i, name("buffer", i) + " exceeds 2**40 bytes");
        const std::int64_t size = (std::max<std::int64_t>(bytes[i], 1) + kAlignment - 1) / kAlignment * kAlignment;
        std::int64_t begin = 0;
        for (const Extent& each : taken) {
            if (begin + size <= each.begin) break;
            begin = std::max(begin, each.end);
        }
        extents[i] = {begin, begin + size};
        parts.begins[i] = begin;
        parts.arena_bytes = std::max(parts.arena_bytes, begin + size);
        if (parts.arena_bytes > kMostArena) {
            fail(BindingFailure::Kind::arena, i, "with " + name("buffer", i) + " the arena exceeds 2**40 bytes");
        }
    }
}

void ProgramTemplate::compute_steps(Parts& parts, const Sizes& sizes, std::span<const int> max_workers,
                                    std::span<HostCall> hosts) const {
    parts.args.resize(args_.size());
    parts.pointers.resize(pointers_.size());
    parts.steps.clear();
    parts.steps.reserve(steps_.size());
    std::ranges::transform(args_, parts.args.begin(), [&](std::int32_t slot) { return sizes[slot]; });
    auto args = std::span<const std::int64_t>(parts.args);
    std::size_t next_pointer = 0;
    std::size_t next_host = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
        const FlatStep& step = steps_[i];
        const auto fault = [i](const char* what) { fail(BindingFailure::Kind::step, i, name("step", i) + what); };
        const std::size_t first_pointer = next_pointer;
        for (; next_pointer < first_pointer + step.pointer_count; ++next_pointer) {
            const auto [buffer, slot] = pointers_[next_pointer];
            const std::int64_t offset = sizes[slot];
            if (offset < 0 || offset > kMostOffset) fault(" has a pointer whose offset is out of range");
            parts.pointers[next_pointer] = {buffer, offset + parts.moved[static_cast<std::size_t>(buffer)]};
        }
        const std::int64_t chunks = sizes[step.chunks];
        const double cost_ns = to_real(sizes[step.cost_ns]);
        if (chunks < 0) fault(" has a negative number of chunks");
        if (!(cost_ns >= 0 && std::isfinite(cost_ns))) fault(" has a cost that is not a finite number >= 0");
        HostCall* const host = step.kernel == nullptr ? &hosts[next_host++] : nullptr;
        parts.steps.push_back({step.kernel, host, std::span(parts.pointers).subspan(first_pointer, step.pointer_count),
                               args.first(step.arg_count), chunks, cost_ns,
                               max_workers.empty() ? step.max_workers : max_workers[i]});
        args = args.subspan(step.arg_count);
    }
}

void ProgramTemplate::set_priorities(Parts& parts) const {
    parts.tasks = spec_.tasks;
    for (auto task = order_.rbegin(); task != order_.rend(); ++task) {
        TaskSpec& record = parts.tasks[*task];
        record.priority = 0;
        for (const std::int64_t next : spec_.successors[*task]) {
            record.priority = std::max(record.priority, parts.tasks[static_cast<std::size_t>(next)].priority);
        }
        const auto first = static_cast<std::size_t>(record.first_step);
        for (std::size_t i = 0; i < static_cast<std::size_t>(record.step_count); ++i) {
            record.priority += parts.steps[first + i].cost_ns;
        }
    }
}

std::size_t ProgramTemplate::arena_allocations() const {
    const std::lock_guard lock(context_mutex());
    return arenas_->allocations();
}

void ProgramTemplate::trim() const {
    std::vector<Block> arenas;  // declared first, so destroyed after the lock is released
    const std::lock_guard lock(context_mutex());
    arenas = arenas_->drain();
}

}  // namespace treadle
