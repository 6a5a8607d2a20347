// Data stages: host steps that run what follows sizes that depend on data, bound to these sizes in the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "treadle/buffer_pool.h"
#include "treadle/program.h"
#include "treadle/program_template.h"
#include "treadle/template_bodies.h"

namespace treadle {

// SizedMemory is an output whose shape a run finds. A run is bound to its address.
struct SizedMemory {
    std::optional<Lease> memory;  // none until the run has made the output
    std::vector<std::int64_t> shape;
    std::size_t kept_bytes = 0;   // at the beginning of the memory that stay: the run appends to them
    std::optional<Lease> former;  // the memory in place of which the run has taken larger one; it may still read it
};

// DataStage binds programs to sizes, and keeps those used last. Any thread that holds no lock of the core may call its
// functions.
class DataStage {
public:
    static constexpr std::size_t kMostBindings = 64;

    // Binding is a program for one combination of sizes, and the shapes of its outputs. An output without a shape is
    // bound to its SizedMemory: a stage of the program makes it.
    struct Binding {
        std::shared_ptr<Program> program;
        std::vector<std::optional<std::vector<std::int64_t>>> shapes;
        std::ptrdiff_t source = -1;    // the number of its Source, if it has one
        std::uint64_t generation = 0;  // how often replace() had replaced this source then
        std::vector<int> max_workers;  // the caps of its source when it was made
    };
    // Source makes programs. `hosts` make the calls of its steps that are no kernels, in the order of these. Symbol i of
    // the template is size number `order[i]`, and its requested sizes are the dimensions of the outputs, whose ranks are
    // `ranks` (none: a stage makes the output).
    struct Source {
        std::shared_ptr<const ProgramTemplate> program_template;
        std::vector<std::size_t> order;
        std::vector<std::optional<std::size_t>> ranks;
        std::vector<int> max_workers;
        std::vector<MakeHost> hosts = {};
    };
    // Moving is a binding that is bound to one combination of sizes after another: one of each source.
    struct Moving {
        struct Part {
            Source source;
            Binding binding;
            ProgramTemplate::Rebinding rebinding;
        };
        std::vector<std::unique_ptr<Part>> parts;  // of the sources in their order, as far as they were needed
        Binding* binding = nullptr;                // that for the sizes
    };
    // Miss is called where no source serves the sizes. It adds one and returns null, or returns a binding.
    using Miss = std::function<std::shared_ptr<const Binding>(std::span<const std::int64_t> sizes)>;

    // `element_bytes` are those of the elements of each output, whose memory is of `pool`.
    DataStage(std::vector<std::size_t> element_bytes, std::shared_ptr<BufferPool> pool, Miss miss);

    // bind() returns a binding that is kept, or makes one by the first source that serves the sizes. Throws what the
    // function for misses throws, and std::logic_error if it has made none.
    std::shared_ptr<const Binding> bind(std::span<const std::int64_t> sizes);
    // run() runs the program for the sizes as a part of the run around the calling step. `operands` are its inputs,
    // `outputs` the SizedMemory of each output. Sizes that it meets for the first time get a binding that is moved, if
    // there is one; those that it meets again get one that is kept.
    void run(std::span<const std::int64_t> sizes, std::span<void* const> operands, std::span<void* const> outputs);
    // move() binds `moving`, which no run uses, to the sizes, by the first source that serves them. Null becomes the one
    // that put_back() has kept, or a new one. Returns false if that is not possible; the caller then uses bind().
    bool move(std::unique_ptr<Moving>& moving, std::span<const std::int64_t> sizes);
    // refresh() sets the caps in force for a binding that was moved, which set_caps() does not reach. Returns false if its
    // source was replaced: the caller then moves it again.
    bool refresh(Moving& moving) const;
    // put_back() keeps the binding, which may be null, for a later move().
    void put_back(std::unique_ptr<Moving> moving);
    void add(Source source);
    // replace() puts `source` in place of source number `number`, and forgets the bindings that this one has made, also
    // those that threads are making.
    void replace(std::size_t number, Source source);
    // is_current() returns whether no replace() has forgotten the binding, which bind() has returned.
    bool is_current(const Binding& binding) const;
    // set_caps() caps the workers that may share the steps of source number `source`, as Program::set_caps() does.
    void set_caps(std::size_t source, std::vector<int> max_workers);
    // place() adds to `bound` where output number `output` of a binding is written: to the memory that `made` has, if
    // it is large enough, else to new memory, which begins with the bytes that are kept.
    void place(const Binding& binding, std::size_t output, SizedMemory& made, std::vector<void*>& bound) const;
    // bytes_of_output() returns the bytes of output number `output` of this shape.
    std::size_t bytes_of_output(std::size_t output, std::span<const std::int64_t> shape) const;
    BufferPool& pool() const { return *pool_; }
    // Ahead runs a loop or branch, then `stage` on its results. The arguments and pointers are those of the step.
    using Ahead = std::function<void(DataStage& stage, std::span<const std::int64_t> args, std::span<void* const> pointers)>;
    // set_ahead() has steps call `ahead` in place of run(). To be called before the first step is made.
    void set_ahead(Ahead ahead) { ahead_ = std::move(ahead); }
    const Ahead& ahead() const { return ahead_; }
    // trim() frees idle memory of programs. That of templates is freed by ProgramTemplate::trim().
    void trim();

    std::size_t outputs() const { return element_bytes_.size(); }

private:
    struct Entry {
        std::vector<std::int64_t> sizes;
        std::shared_ptr<const Binding> binding;  // null: a run had these sizes once, for which one was moved
    };
    struct Numbered {
        Source source;
        std::uint64_t generation = 0;  // how often replace() has replaced it
    };

    std::list<Entry>::iterator use(std::span<const std::int64_t> sizes);
    std::shared_ptr<const Binding> find(std::span<const std::int64_t> sizes);
    std::shared_ptr<const Binding> find_or_note(std::span<const std::int64_t> sizes, bool& is_new);
    void add(std::span<const std::int64_t> sizes, std::shared_ptr<const Binding> binding, Entry& last);
    std::shared_ptr<const Binding> from_sources(std::span<const std::int64_t> sizes) const;
    bool keep(std::span<const std::int64_t> sizes, const std::shared_ptr<const Binding>& binding);
    bool comes_from_source(const Binding& binding) const;
    Moving::Part* part_of(Moving& moving, std::size_t source) const;
    void cap(const Binding& binding);
    std::vector<std::shared_ptr<const Binding>> kept() const;

    const std::vector<std::size_t> element_bytes_;
    const std::shared_ptr<BufferPool> pool_;
    const Miss miss_;
    Ahead ahead_;  // may be empty
    std::vector<Numbered> sources_;  // guarded by context_mutex(), like all below
    std::list<Entry> entries_;       // the one used last comes first
    std::unique_ptr<Moving> idle_moving_;
};

// make_data_stage() returns a step that runs `stage` for the sizes `args` and those that it reads. Its pointers are the
// SizedMemory of each output, then one for each of `counts` to so many sizes, then the operands. If a loop or branch runs
// in front of the stage, DataLoop or DataBranch says what arguments and pointers are.
HostCall make_data_stage(std::shared_ptr<DataStage> stage, std::vector<std::int64_t> args,
                         std::vector<std::size_t> counts);

// stage_maker() returns what calls make_data_stage() when a template is bound.
MakeHost stage_maker(std::shared_ptr<DataStage> stage, std::vector<std::size_t> counts);

}  // namespace treadle
