#include "treadle/data_stage.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "treadle/fork.h"
#include "treadle/team.h"

namespace treadle {

namespace {

// Returns the bytes of an array. Throws std::bad_alloc if no memory has so many.
std::size_t bytes_of(std::span<const std::int64_t> shape, std::size_t element_bytes) {
    std::size_t bytes = element_bytes;
    if (std::ranges::find(shape, 0) != shape.end()) return 0;
    for (const std::int64_t dim : shape) {
        if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(dim), &bytes)) throw std::bad_alloc();
    }
    return bytes;
}

// Sets the shapes of outputs of these ranks, whose dimensions are `dims` one after another.
void set_shapes(DataStage::Binding& binding, const std::vector<std::int64_t>& dims,
                const std::vector<std::optional<std::size_t>>& ranks) {
    binding.shapes.resize(ranks.size());
    auto dim = dims.begin();
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        if (!ranks[i]) continue;
        const auto end = dim + static_cast<std::ptrdiff_t>(*ranks[i]);
        binding.shapes[i].emplace(dim, end);
        dim = end;
    }
}

}  // namespace

DataStage::DataStage(std::vector<std::size_t> element_bytes, std::shared_ptr<BufferPool> pool, Miss miss)
    : element_bytes_(std::move(element_bytes)), pool_(std::move(pool)), miss_(std::move(miss)) {}

std::shared_ptr<const DataStage::Binding> DataStage::bind(std::span<const std::int64_t> sizes) {
    std::shared_ptr<const Binding> found = find(sizes);
    if (found) return found;
    do {
        found = from_sources(sizes);
        if (!found) found = miss_(sizes);
        if (!found) found = from_sources(sizes);
        if (!found) throw std::logic_error("no program was made for sizes that depend on data");
    } while (!keep(sizes, found));
    cap(*found);
    return found;
}

// Finds the entry for the sizes and puts it first. Under context_mutex().
std::list<DataStage::Entry>::iterator DataStage::use(std::span<const std::int64_t> sizes) {
    const auto entry = std::ranges::find_if(entries_, [&](const Entry& e) { return std::ranges::equal(e.sizes, sizes); });
    if (entry != entries_.end()) entries_.splice(entries_.begin(), entries_, entry);
    return entry;
}

std::shared_ptr<const DataStage::Binding> DataStage::find(std::span<const std::int64_t> sizes) {
    const std::lock_guard lock(context_mutex());
    const auto entry = use(sizes);
    return entry == entries_.end() ? nullptr : entry->binding;
}

// Returns what find() does. If there is no entry, notes that a run has these sizes, and sets `is_new`.
std::shared_ptr<const DataStage::Binding> DataStage::find_or_note(std::span<const std::int64_t> sizes, bool& is_new) {
    Entry last;  // destroyed without the lock
    const std::lock_guard lock(context_mutex());
    const auto entry = use(sizes);
    is_new = entry == entries_.end();
    if (!is_new) return entry->binding;
    add(sizes, nullptr, last);
    return nullptr;
}

// Adds an entry. Moves the one that was not used for longest, if there are too many, to `last`. Under context_mutex().
void DataStage::add(std::span<const std::int64_t> sizes, std::shared_ptr<const Binding> binding, Entry& last) {
    entries_.push_front({{sizes.begin(), sizes.end()}, std::move(binding)});
    if (entries_.size() <= kMostBindings) return;
    last = std::move(entries_.back());
    entries_.pop_back();
}

std::shared_ptr<const DataStage::Binding> DataStage::from_sources(std::span<const std::int64_t> sizes) const {
    std::vector<Numbered> sources;
    {
        const std::lock_guard lock(context_mutex());
        sources = sources_;
    }
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const auto& [source, generation] = sources[i];
        std::vector<std::int64_t> symbols;
        for (const std::size_t size : source.order) symbols.push_back(sizes[size]);
        try {
            const ProgramTemplate::Sizes slots = source.program_template->evaluate(symbols);
            std::vector<HostCall> hosts = make_hosts(*source.program_template, slots, source.hosts);
            auto binding = std::make_shared<Binding>();
            binding->program = source.program_template->bind(slots, {}, source.max_workers, hosts, true);
            set_shapes(*binding, source.program_template->requested(slots), source.ranks);
            binding->source = static_cast<std::ptrdiff_t>(i);
            binding->generation = generation;
            binding->max_workers = source.max_workers;
            return binding;
        } catch (const BindingFailure&) {
            continue;  // it does not serve these sizes
        }
    }
    return nullptr;
}

// Keeps the binding; false if its source was replaced while it was made.
bool DataStage::keep(std::span<const std::int64_t> sizes, const std::shared_ptr<const Binding>& binding) {
    Entry last;  // destroyed without the lock
    const std::lock_guard lock(context_mutex());
    if (!comes_from_source(*binding)) return false;
    if (const auto noted = use(sizes); noted != entries_.end()) {
        std::swap(noted->binding, last.binding);
        noted->binding = binding;
    } else {
        add(sizes, binding, last);
    }
    return true;
}

// Under context_mutex().
bool DataStage::comes_from_source(const Binding& binding) const {
    return binding.source < 0 || sources_[static_cast<std::size_t>(binding.source)].generation == binding.generation;
}

bool DataStage::is_current(const Binding& binding) const {
    const std::lock_guard lock(context_mutex());
    return comes_from_source(binding);
}

// A cap that was set after the binding's source was read has not reached it.
void DataStage::cap(const Binding& binding) {
    if (binding.source < 0) return;
    std::vector<int> max_workers;
    {
        const std::lock_guard lock(context_mutex());
        max_workers = sources_[static_cast<std::size_t>(binding.source)].source.max_workers;
    }
    if (max_workers != binding.max_workers) binding.program->set_caps(max_workers);
}

// Returns the part of `moving` for source number `source`, with the caps in force; null if there is no such source.
DataStage::Moving::Part* DataStage::part_of(Moving& moving, std::size_t source) const {
    std::unique_ptr<Moving::Part> replaced;  // destroyed without the lock
    const std::lock_guard lock(context_mutex());
    if (source >= sources_.size()) return nullptr;
    if (source == moving.parts.size()) moving.parts.emplace_back();
    std::unique_ptr<Moving::Part>& part = moving.parts[source];
    const Numbered& wanted = sources_[source];
    if (!part || !comes_from_source(part->binding)) {
        replaced = std::exchange(part, std::make_unique<Moving::Part>());
        part->source = wanted.source;
        part->binding.source = static_cast<std::ptrdiff_t>(source);
        part->binding.generation = wanted.generation;
    }
    part->binding.max_workers = wanted.source.max_workers;
    return part.get();
}

bool DataStage::move(std::unique_ptr<Moving>& moving, std::span<const std::int64_t> sizes) {
    if (!moving) {
        const std::lock_guard lock(context_mutex());
        moving = std::move(idle_moving_);
    }
    if (!moving) moving = std::make_unique<Moving>();
    moving->binding = nullptr;
    std::vector<std::int64_t> symbols;
    for (std::size_t number = 0; Moving::Part* const part = part_of(*moving, number); ++number) {
        const Source& source = part->source;
        const ProgramTemplate& made_by = *source.program_template;
        symbols.clear();
        for (const std::size_t size : source.order) symbols.push_back(sizes[size]);
        Binding& binding = part->binding;
        try {
            const ProgramTemplate::Sizes* const slots = made_by.served(part->rebinding, symbols);
            if (slots == nullptr) continue;
            set_shapes(binding, made_by.requested(*slots), source.ranks);
            std::vector<HostCall> hosts = make_hosts(made_by, *slots, source.hosts);
            if (!binding.program) {
                binding.program = made_by.bind(part->rebinding, {}, binding.max_workers, hosts);
            } else if (!made_by.rebind(part->rebinding, *binding.program, {}, binding.max_workers, hosts)) {
                return false;
            }
        } catch (const BindingFailure&) {
            moving->parts[number].reset();  // what it holds is for no combination of sizes
            continue;
        } catch (...) {
            moving->parts[number].reset();  // likewise, and `moving` is kept
            throw;
        }
        if (!is_current(binding)) return false;
        moving->binding = &binding;
        return true;
    }
    return false;
}

bool DataStage::refresh(Moving& moving) const {
    Binding& binding = *moving.binding;
    {
        const std::lock_guard lock(context_mutex());
        if (!comes_from_source(binding)) return false;
        const Source& source = sources_[static_cast<std::size_t>(binding.source)].source;
        if (source.max_workers == binding.max_workers) return true;
        binding.max_workers = source.max_workers;
    }
    binding.program->set_caps(binding.max_workers);
    return true;
}

void DataStage::put_back(std::unique_ptr<Moving> moving) {
    const std::lock_guard lock(context_mutex());
    idle_moving_.swap(moving);
}

void DataStage::run(std::span<const std::int64_t> sizes, std::span<void* const> operands,
                    std::span<void* const> outputs) {
    bool is_new = false;
    std::shared_ptr<const Binding> kept = find_or_note(sizes, is_new);
    std::unique_ptr<Moving> moving;
    const bool is_moved = is_new && move(moving, sizes);
    if (!kept && !is_moved) kept = bind(sizes);
    const Binding& binding = is_moved ? *moving->binding : *kept;
    std::vector<void*> bound(operands.begin(), operands.end());
    for (std::size_t i = 0; i < outputs.size(); ++i) {
        place(binding, i, *static_cast<SizedMemory*>(outputs[i]), bound);
    }
    Part(*binding.program).run(bound);
    if (moving) put_back(std::move(moving));
}

void DataStage::place(const Binding& binding, std::size_t output, SizedMemory& made, std::vector<void*>& bound) const {
    if (!binding.shapes[output]) {
        bound.push_back(&made);
        return;
    }
    made.shape = *binding.shapes[output];
    const std::size_t bytes = std::max<std::size_t>(bytes_of_output(output, made.shape), 1);
    if (!made.memory || made.memory->size() < bytes) {
        Lease larger = pool_->acquire(made.kept_bytes > 0 ? 2 * bytes : bytes);
        if (made.kept_bytes > 0) std::memcpy(larger.data(), made.memory->data(), made.kept_bytes);
        made.former.reset();
        if (made.memory) made.former.emplace(std::move(*made.memory));
        made.memory.emplace(std::move(larger));
    }
    bound.push_back(made.memory->data());
}

std::size_t DataStage::bytes_of_output(std::size_t output, std::span<const std::int64_t> shape) const {
    return bytes_of(shape, element_bytes_[output]);
}

void DataStage::add(Source source) {
    const std::lock_guard lock(context_mutex());
    sources_.push_back({std::move(source)});
}

void DataStage::replace(std::size_t number, Source source) {
    std::list<Entry> forgotten;  // destroyed without the lock, like the next one
    std::unique_ptr<Moving> moved;
    const std::lock_guard lock(context_mutex());
    std::swap(sources_.at(number).source, source);
    ++sources_[number].generation;
    moved = std::move(idle_moving_);
    for (auto entry = entries_.begin(); entry != entries_.end();) {
        const auto next = std::next(entry);
        if (entry->binding && entry->binding->source == static_cast<std::ptrdiff_t>(number)) {
            forgotten.splice(forgotten.end(), entries_, entry);
        }
        entry = next;
    }
}

std::vector<std::shared_ptr<const DataStage::Binding>> DataStage::kept() const {
    std::vector<std::shared_ptr<const Binding>> bindings;
    const std::lock_guard lock(context_mutex());
    for (const Entry& entry : entries_) {
        if (entry.binding) bindings.push_back(entry.binding);
    }
    return bindings;
}

void DataStage::set_caps(std::size_t source, std::vector<int> max_workers) {
    {
        const std::lock_guard lock(context_mutex());
        sources_.at(source).source.max_workers = max_workers;
    }
    for (const auto& binding : kept()) {
        if (binding->source == static_cast<std::ptrdiff_t>(source)) binding->program->set_caps(max_workers);
    }
}

void DataStage::trim() {
    put_back(nullptr);
    for (const auto& binding : kept()) binding->program->trim();
    pool_->clear();
}

HostCall make_data_stage(std::shared_ptr<DataStage> stage, std::vector<std::int64_t> args,
                         std::vector<std::size_t> counts) {
    return [stage = std::move(stage), args = std::move(args),
            counts = std::move(counts)](std::span<void* const> pointers) {
        if (stage->ahead()) {
            stage->ahead()(*stage, args, pointers);
            return;
        }
        const std::size_t outputs = stage->outputs();
        std::vector<std::int64_t> sizes = args;
        for (std::size_t i = 0; i < counts.size(); ++i) {
            const auto* const numbers = static_cast<const std::int64_t*>(pointers[outputs + i]);
            sizes.insert(sizes.end(), numbers, numbers + counts[i]);
        }
        stage->run(sizes, pointers.subspan(outputs + counts.size()), pointers.first(outputs));
    };
}

MakeHost stage_maker(std::shared_ptr<DataStage> stage, std::vector<std::size_t> counts) {
    return [stage = std::move(stage), counts = std::move(counts)](std::vector<std::int64_t> args) {
        return make_data_stage(stage, std::move(args), counts);
    };
}

}  // namespace treadle
