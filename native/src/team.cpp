#include "weft/team.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "weft/affinity.h"
#include "weft/fork.h"
#include "weft/scheduler.h"

namespace weft {

namespace {

int checked(const char* what, int value) {
    if (value >= 1 && value <= kMostThreads) return value;
    throw std::invalid_argument(std::string("team: ") + what + " must be in 1.." + std::to_string(kMostThreads) +
                                ", got " + std::to_string(value));
}

std::uint64_t pack(Limits limits) {
    return static_cast<std::uint64_t>(checked("intra_op", limits.intra_op)) << 32 |
           static_cast<std::uint64_t>(checked("inter_op", limits.inter_op));
}

Limits unpack(std::uint64_t packed) {
    return {static_cast<int>(packed >> 32), static_cast<int>(packed & 0xFFFFFFFF)};
}

// Guarded by context_mutex(); never destroyed, as teams may outlive static objects.
std::vector<Team*>& teams() {
    static auto* const all = new std::vector<Team*>;
    return *all;
}

std::uint64_t next_run_id() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // only uniqueness matters: no partner
}

// Schedulers of the parent process: their threads do not exist here and their locks may be held, so nothing of them
// can be freed.
void bury(std::shared_ptr<Scheduler> scheduler) {
    static auto* const graveyard = new std::vector<std::shared_ptr<Scheduler>>;
    graveyard->push_back(std::move(scheduler));
}

}  // namespace

Team::Team(std::string name, Limits limits, std::chrono::nanoseconds spin_limit)
    : name_(std::move(name)), spin_ns_(spin_limit.count()), limits_(pack(limits)) {
    const std::lock_guard lock(context_mutex());
    teams().push_back(this);
}

Team::~Team() {
    {
        const std::lock_guard lock(context_mutex());
        std::erase(teams(), this);
    }
    close();
}

std::shared_ptr<Scheduler> Team::scheduler() {
    const std::lock_guard lock(context_mutex());
    if (closed_) throw std::runtime_error("team '" + name_ + "' is closed");
    if (scheduler_ && generation_ != fork_generation()) bury(std::move(scheduler_));
    if (!scheduler_) {
        // Relaxed: changed under this lock too.
        scheduler_ = std::make_shared<Scheduler>(name_, unpack(limits_.load(std::memory_order_relaxed)), spin(), cpus_,
                                                 base_cpus_);
        generation_ = fork_generation();
    }
    return scheduler_;
}

void Team::run(Program& program, std::span<void* const> bound, const Request& request) {
    const Limits asked = request.asked;
    if (asked.intra_op != 0) checked("intra_op", asked.intra_op);
    if (asked.inter_op != 0) checked("inter_op", asked.inter_op);
    const std::shared_ptr<Scheduler> its_scheduler = scheduler();
    std::unique_ptr<Context> context = program.acquire(bound);
    const std::uint64_t run = context->run_id = next_run_id();
    const auto release = [&] {
        if (request.token) request.token->part(run);
        program.release(std::move(context));
    };
    try {
        if (request.token && !request.token->join(its_scheduler, run)) throw RunCancelled("the run was cancelled");
        its_scheduler->run(*context, request);
    } catch (...) {
        release();
        throw;
    }
    release();
}

void Team::set_limits(Limits limits) {
    // Stored first, so that a scheduler made from now on has it. Relaxed: limits() wants no order with anything else.
    limits_.store(pack(limits), std::memory_order_relaxed);
    if (const auto living = living_scheduler()) living->set_limits(limits);
}

Limits Team::limits() const {
    return unpack(limits_.load(std::memory_order_relaxed));  // see set_limits()
}

std::size_t Team::threads() {
    const Status now = status();
    return static_cast<std::size_t>(now.workers) + static_cast<std::size_t>(now.blocking);
}

Status Team::status() {
    const auto living = living_scheduler();
    return living ? living->status() : Status{};
}

void Team::set_spin(std::chrono::nanoseconds limit) {
    spin_ns_.store(limit.count(), std::memory_order_relaxed);  // see set_limits()
    if (const auto living = living_scheduler()) living->set_spin(limit);
}

std::chrono::nanoseconds Team::spin() const {
    return std::chrono::nanoseconds(spin_ns_.load(std::memory_order_relaxed));  // see set_limits()
}

void Team::set_cpus(const std::vector<int>& cpus) {
    std::vector<int> base;
    {
        const std::lock_guard lock(context_mutex());
        if (cpus.empty() && base_cpus_.empty()) return;
    }
    base = cpus_of_this_thread();
    std::shared_ptr<Scheduler> living;
    {
        const std::lock_guard lock(context_mutex());
        cpus_ = cpus;
        base_cpus_ = base;
        if (generation_ == fork_generation()) living = scheduler_;
    }
    if (living) living->set_cpus(cpus, base);
}

std::shared_ptr<Scheduler> Team::living_scheduler() {
    const std::lock_guard lock(context_mutex());
    return generation_ == fork_generation() ? scheduler_ : nullptr;
}

void Team::close(bool cancel) {
    std::shared_ptr<Scheduler> living;
    {
        const std::lock_guard lock(context_mutex());
        if (scheduler_ && generation_ != fork_generation()) bury(std::move(scheduler_));
        living = scheduler_;
    }
    if (living) living->close(cancel);
    const std::lock_guard lock(context_mutex());
    closed_ = true;
}

void close_all_teams() {
    std::vector<std::shared_ptr<Scheduler>> living;
    {
        const std::lock_guard lock(context_mutex());
        for (Team* team : teams()) {
            if (team->scheduler_ && team->generation_ == fork_generation()) living.push_back(team->scheduler_);
            team->closed_ = true;
        }
    }
    for (const auto& scheduler : living) scheduler->close(true);
}

}  // namespace weft
