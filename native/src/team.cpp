#include "weft/team.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <vector>

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

// Schedulers of the parent process: their threads do not exist here and their locks may be held, so nothing of them
// can be freed.
void bury(std::shared_ptr<Scheduler> scheduler) {
    static auto* const graveyard = new std::vector<std::shared_ptr<Scheduler>>;
    graveyard->push_back(std::move(scheduler));
}

}  // namespace

Team::Team(std::string name, Limits limits, std::chrono::nanoseconds spin_limit)
    : name_(std::move(name)), spin_limit_(spin_limit), limits_(pack(limits)) {
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
        scheduler_ = std::make_shared<Scheduler>(name_, unpack(limits_.load(std::memory_order_relaxed)), spin_limit_);
        generation_ = fork_generation();
    }
    return scheduler_;
}

void Team::run(Program& program, std::span<void* const> bound, Limits asked, void (*poll)(), int priority) {
    if (asked.intra_op != 0) checked("intra_op", asked.intra_op);
    if (asked.inter_op != 0) checked("inter_op", asked.inter_op);
    const std::shared_ptr<Scheduler> its_scheduler = scheduler();
    std::unique_ptr<Context> context = program.acquire(bound);
    try {
        its_scheduler->run(*context, asked, poll, priority);
    } catch (...) {
        program.release(std::move(context));
        throw;
    }
    program.release(std::move(context));
}

void Team::set_limits(Limits limits) {
    const std::uint64_t packed = pack(limits);
    std::shared_ptr<Scheduler> living;
    {
        const std::lock_guard lock(context_mutex());
        limits_.store(packed, std::memory_order_relaxed);  // limits() wants no order with anything else
        if (generation_ == fork_generation()) living = scheduler_;
    }
    if (living) living->set_limits(limits);
}

Limits Team::limits() const {
    return unpack(limits_.load(std::memory_order_relaxed));  // see set_limits()
}

std::size_t Team::threads() {
    std::shared_ptr<Scheduler> living;
    {
        const std::lock_guard lock(context_mutex());
        if (generation_ == fork_generation()) living = scheduler_;
    }
    return living ? living->threads() : 0;
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
