// ProgramTemplate: a program whose arguments, chunks, costs and memory are computed when it is bound to sizes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "treadle/binder.h"
#include "treadle/prefetch.h"
#include "treadle/program.h"

namespace treadle {

// StepTemplate describes a step by slots of the binder.
struct StepTemplate {
    Kernel kernel = nullptr;            // null: bind() is given a host call for it
    std::vector<PointerSpec> pointers;  // `offset` is the slot of the byte offset
    std::vector<std::int64_t> args;     // slots
    std::int64_t chunks = 0;            // slot; the step does nothing where its value is 0
    std::int64_t cost_ns = 0;           // slot of a real
    int max_workers = 0;
};

// TemplateSpec describes a template. All slots hold integers but those of costs.
struct TemplateSpec {
    std::vector<StepTemplate> steps;
    std::vector<TaskSpec> tasks;  // binding computes their priorities
    std::vector<std::vector<std::int64_t>> successors;
    std::vector<BufferSpec> buffers;  // `value` of a buffer in the arena is the slot of its size in bytes
    // Pairs of buffers in the arena that must not overlap.
    std::vector<std::pair<std::int64_t, std::int64_t>> rivals;
    std::int64_t scratch_bytes = 0;       // slot
    std::vector<std::int64_t> guards;     // slots that must not hold 0
    std::vector<std::int64_t> requested;  // slots of sizes that the caller wants; none may be negative
    HandOver hand_over;                   // see Program::hand_over()
};

// Location says where an output lies: in which bound memory, counted from the first after the inputs, and from which
// byte on.
struct Location {
    std::int64_t memory;
    std::int64_t offset;
};

// ProgramTemplate is immutable: any number of threads may bind it at once.
class ProgramTemplate {
public:
    // Sizes are the values of all slots for given values of the symbols. Their template makes them.
    class Sizes {
    public:
        std::int64_t operator[](std::int64_t slot) const { return slots_[static_cast<std::size_t>(slot)]; }

    private:
        friend class ProgramTemplate;
        std::uint64_t owner_ = 0;
        std::vector<Slot> slots_;
    };

    // The largest arena that a program may have, bytes.
    static constexpr std::int64_t kMostArena = std::int64_t{1} << 40;

    // Throws std::invalid_argument whose text names the faulty entry, what is allowed, and its value.
    ProgramTemplate(Binder binder, TemplateSpec spec);

    // evaluate() returns the sizes for the symbols' values. Throws BindingFailure if an operation fails, or else if a
    // guard does not hold, or else if a requested size is negative.
    Sizes evaluate(std::span<const std::int64_t> symbols) const;

    // requested() returns the values of the slots that were requested.
    std::vector<std::int64_t> requested(const Sizes& sizes) const;

    // args() returns the values of the arguments of step number `step`.
    std::vector<std::int64_t> args(const Sizes& sizes, std::size_t step) const;

    // bind() returns a program for the sizes; all programs share their arenas. `outputs` locates the outputs, which the
    // last bound indices of the template stand for; empty: each has its own memory. `max_workers` replaces the caps of
    // the steps unless it is empty. `hosts` are moved from: one for each step without a kernel, in the order of the
    // steps. Throws BindingFailure, and std::invalid_argument for sizes of another template or
    // wrong outputs, caps or host calls. If `shares_id`, the program has the id program_id().
    template <typename AnyProgram = Program>
    std::unique_ptr<AnyProgram> bind(const Sizes& sizes, std::span<const Location> outputs = {},
                                     std::span<const int> max_workers = {}, std::span<HostCall> hosts = {},
                                     bool shares_id = false) const {
        Parts parts;
        compute(parts, sizes, outputs, max_workers, hosts);
        return std::make_unique<AnyProgram>(std::span<const StepRef>(parts.steps), parts.tasks, spec_.successors,
                                            parts.buffers, parts.arena_bytes, parts.scratch_bytes, spec_.hand_over,
                                            arenas_, shares_id ? program_id_ : 0);
    }

    // Rebinding is what a program needs to be bound to one combination of sizes after another. One thread uses it at a
    // time.
    class Rebinding;

    // evaluate() with a Rebinding returns the sizes of the next bind() or rebind(). It computes only what depends on
    // symbols whose values differ from those of its last call. Throws as evaluate() does; evaluate() must then succeed
    // before the next bind() or rebind().
    const Sizes& evaluate(Rebinding& rebinding, std::span<const std::int64_t> symbols) const;

    // served() returns the same, but null where a guard does not hold. Else it throws as evaluate() does.
    const Sizes* served(Rebinding& rebinding, std::span<const std::int64_t> symbols) const;

    // bind() with a Rebinding makes a program for the sizes that evaluate() has returned. Throws as bind() does; the
    // rebinding must then not be used.
    template <typename AnyProgram = Program>
    std::unique_ptr<AnyProgram> bind(Rebinding& rebinding, std::span<const Location> outputs = {},
                                     std::span<const int> max_workers = {}, std::span<HostCall> hosts = {}) const;

    // rebind() binds the program, which bind() has made for this rebinding, to the sizes that evaluate() has returned.
    // Returns false, and does not change the program, if a run uses it. No run may begin, and no caps may be set,
    // meanwhile. Throws as bind() does; the program and the rebinding must then not be used.
    bool rebind(Rebinding& rebinding, Program& program, std::span<const Location> outputs = {},
                std::span<const int> max_workers = {}, std::span<HostCall> hosts = {}) const;

    // hosts() returns the numbers of the steps without a kernel.
    std::vector<std::size_t> hosts() const;

    // program_id() returns the id of the programs that share one.
    std::uint64_t program_id() const { return program_id_; }

    // arena_allocations() returns how many arenas its programs have allocated so far.
    std::size_t arena_allocations() const;

    // trim() frees the arenas that no run of its programs uses. Any thread that holds no lock of the core may call it.
    void trim() const;

private:
    // What the constructor of a program takes, and what its steps refer to.
    struct Parts {
        std::vector<std::int64_t> args;
        std::vector<PointerSpec> pointers;
        std::vector<StepRef> steps;
        std::vector<TaskSpec> tasks;
        std::vector<BufferSpec> buffers;
        std::vector<std::int64_t> moved;  // for each buffer the byte offset of its content in its memory
        std::vector<std::int64_t> bytes;  // of the buffers in the arena, for which assign_arena() has placed them
        std::vector<std::int64_t> begins;  // their offsets then
        std::int64_t arena_bytes = 0;
        std::int64_t scratch_bytes = 0;
    };

    void add_steps();
    void check_buffers();
    void add_rivals();
    void sort_tasks();
    void update(Rebinding& rebinding, std::span<const std::int64_t> symbols) const;
    void prefetch(const Rebinding& rebinding) const;
    void check(const Sizes& sizes) const;
    void check_requested(const Sizes& sizes) const;
    void compute(Parts& parts, const Sizes& sizes, std::span<const Location> outputs, std::span<const int> max_workers,
                 std::span<HostCall> hosts) const;
    template <typename Number>
    std::vector<std::int64_t> values_of(const Sizes& sizes, std::span<const Number> slots) const;
    void locate(Parts& parts, std::span<const Location> outputs) const;
    void assign_arena(Parts& parts, const Sizes& sizes) const;
    void place_buffers(Parts& parts) const;
    void compute_steps(Parts& parts, const Sizes& sizes, std::span<const int> max_workers,
                       std::span<HostCall> hosts) const;
    void set_priorities(Parts& parts) const;

    // Slots are int32 here, and those of all steps lie together: binding reads them from memory that runs have evicted
    // from the caches.
    struct Pointer {
        std::int32_t buffer;
        std::int32_t offset;  // slot
    };
    struct FlatStep {
        Kernel kernel;
        std::uint32_t arg_count;
        std::uint32_t pointer_count;
        std::int32_t chunks;   // slot
        std::int32_t cost_ns;  // slot
        std::int32_t max_workers;
    };

    std::uint64_t id_;
    std::uint64_t program_id_ = next_program_id();
    Binder binder_;
    TemplateSpec spec_;  // its steps are in `steps_`
    std::vector<FlatStep> steps_;
    std::vector<std::int32_t> args_;  // of all steps, one after another, like `pointers_`
    std::vector<Pointer> pointers_;
    std::size_t hosts_ = 0;                 // how many steps have no kernel
    std::size_t bound_ = 0;                 // how many addresses a run is given
    std::vector<std::size_t> in_arena_;       // the buffers in the arena
    std::vector<std::uint32_t> first_rival_;  // of each buffer, and the end: indices into rivals_
    std::vector<std::uint32_t> rivals_;
    std::vector<std::uint32_t> order_;      // the tasks, each after its predecessors
    std::shared_ptr<Arenas> arenas_ = std::make_shared<Arenas>(true);
};

class ProgramTemplate::Rebinding {
    friend class ProgramTemplate;
    Sizes sizes_;  // those of the next bind() or rebind()
    Parts parts_;
};

template <typename AnyProgram>
std::unique_ptr<AnyProgram> ProgramTemplate::bind(Rebinding& rebinding, std::span<const Location> outputs,
                                                  std::span<const int> max_workers, std::span<HostCall> hosts) const {
    const Parts& parts = rebinding.parts_;
    compute(rebinding.parts_, rebinding.sizes_, outputs, max_workers, hosts);
    return std::make_unique<AnyProgram>(std::span<const StepRef>(parts.steps), parts.tasks, spec_.successors,
                                        parts.buffers, parts.arena_bytes, parts.scratch_bytes, spec_.hand_over, arenas_,
                                        program_id_);
}

}  // namespace treadle
