#include "treadle/team.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "treadle/affinity.h"
#include "treadle/fork.h"
#include "treadle/scheduler.h"

namespace treadle {

namespace {

int check_limit(const char* what, int value) {
    if (value >= 1 && value <= kMaxThreads) return value;
    throw std::invalid_argument(std::string("team: ") + what + " must be in 1.." + std::to_string(kMaxThreads) +
                                ", got " + std::to_string(value));
}

void check_requested(Limits limits) {
    if (limits.intra_op != 0) check_limit("intra_op", limits.intra_op);
    if (limits.inter_op != 0) check_limit("inter_op", limits.inter_op);
}

std::uint64_t pack(Limits limits) {
    return static_cast<std::uint64_t>(limits.intra_op) << 32 | static_cast<std::uint64_t>(limits.inter_op);
}

std::uint64_t check_and_pack(Limits limits) {
    check_limit("intra_op", limits.intra_op);
    check_limit("inter_op", limits.inter_op);
    return pack(limits);
}

Limits unpack(std::uint64_t packed) {
    return {static_cast<int>(packed >> 32), static_cast<int>(packed & 0xFFFFFFFF)};
}

// All teams. context_mutex() guards the list; it is never destroyed, because teams may outlive static objects.
std::vector<Team*>& teams() {
    static auto* const all = new std::vector<Team*>;
    return *all;
}

std::uint64_t next_run_id() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;  // only uniqueness matters: no partner
}

// Keeps a scheduler that must not be freed: one of the parent process, whose threads do not exist here and whose locks
// may be held, or one with threads left in host steps at the end of the process. Needs context_mutex().
void keep_forever(std::shared_ptr<Scheduler> scheduler) {
    static auto* const graveyard = new std::vector<std::shared_ptr<Scheduler>>;
    graveyard->push_back(std::move(scheduler));
}

}  // namespace

Team::Team(std::string name, Limits limits, std::chrono::nanoseconds spin_limit)
    : name_(std::move(name)), spin_ns_(spin_limit.count()), limits_(check_and_pack(limits)) {
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
    if (scheduler_ && generation_ != fork_generation()) keep_forever(std::move(scheduler_));
    if (!scheduler_) {
        // Relaxed, partner: set_limits(), which stores and then updates the scheduler that it finds under this lock.
        scheduler_ = std::make_shared<Scheduler>(name_, unpack(limits_.load(std::memory_order_relaxed)), spin(), cpus_,
                                                 base_cpus_);
        generation_ = fork_generation();
    }
    return scheduler_;
}

void Team::run(Program& program, std::span<void* const> bound, const Request& request) {
    check_requested(request.limits);
    const Worker* inside = request.is_part ? current_worker() : nullptr;
    const std::shared_ptr<Scheduler> scheduler_of_run =
        inside != nullptr && inside->scheduler->is_here() ? inside->scheduler->shared_from_this() : scheduler();
    std::unique_ptr<Context> context = program.acquire(bound);
    const std::uint64_t run = context->run_id = next_run_id();
    context->iteration = current_worker() == nullptr ? -1 : current_worker()->iteration;
    const auto release = [&] {
        if (request.token) request.token->detach(run);
        if (context) program.release(std::move(context));
    };
    try {
        if (request.token && !request.token->attach(scheduler_of_run, run)) throw RunCancelled("the run was cancelled");
        scheduler_of_run->run(context, request);
    } catch (...) {
        release();
        throw;
    }
    release();
}

Part::Part(Program& program) : program_(program) {}

Part::~Part() {
    if (context_) program_.release(std::move(context_));
}

void Part::run(std::span<void* const> bound, std::int64_t iteration) {
    if (context_) {
        program_.bind(*context_, bound);
    } else {
        context_ = program_.acquire(bound);
    }
    const Worker& around = *current_worker();
    context_->iteration = iteration >= 0 ? iteration : around.iteration;
    Request request;
    request.is_part = true;
    request.priority = around.current_run->priority;
    request.poll = around.watch.poll_function();
    around.scheduler->run(context_, request);
}

void Team::set_limits(Limits limits) {
    // Stored before live_scheduler(), so that a scheduler made later has it. Relaxed, partners: limits() and
    // scheduler(); it orders nothing else.
    limits_.store(check_and_pack(limits), std::memory_order_relaxed);
    if (const auto living = live_scheduler()) living->set_limits(limits);
}

Limits Team::limits() const {
    return unpack(limits_.load(std::memory_order_relaxed));  // see set_limits()
}

std::size_t Team::threads() {
    const Status now = status();
    return static_cast<std::size_t>(now.workers + now.blocking + now.abandoned);
}

Status Team::status() {
    const auto living = live_scheduler();
    return living ? living->status() : Status{};
}

void Team::set_spin(std::chrono::nanoseconds limit) {
    spin_ns_.store(limit.count(), std::memory_order_relaxed);  // see set_limits()
    if (const auto living = live_scheduler()) living->set_spin(limit);
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

std::shared_ptr<Scheduler> Team::live_scheduler() {
    const std::lock_guard lock(context_mutex());
    return generation_ == fork_generation() ? scheduler_ : nullptr;
}

void Team::close(bool cancel) {
    std::shared_ptr<Scheduler> living;
    {
        const std::lock_guard lock(context_mutex());
        if (scheduler_ && generation_ != fork_generation()) keep_forever(std::move(scheduler_));
        living = scheduler_;
    }
    if (living) living->close(cancel);
    const std::lock_guard lock(context_mutex());
    closed_ = true;
}

std::vector<std::shared_ptr<Scheduler>> Team::live_schedulers() {
    std::vector<std::shared_ptr<Scheduler>> living;
    const std::lock_guard lock(context_mutex());
    for (const Team* team : teams()) {
        if (team->scheduler_ && team->generation_ == fork_generation()) living.push_back(team->scheduler_);
    }
    return living;
}

bool shut_down_all_teams(std::chrono::nanoseconds grace) {
    const auto until = Clock::now() + grace;
    {
        const std::lock_guard lock(context_mutex());
        for (Team* team : teams()) team->closed_ = true;
    }
    bool any_left = false;
    for (const auto& scheduler : Team::live_schedulers()) {
        if (!scheduler->shut_down(until)) continue;
        const std::lock_guard lock(context_mutex());
        keep_forever(scheduler);
        any_left = true;
    }
    return any_left;
}

void reload_all_limits() {
    for (const auto& scheduler : Team::live_schedulers()) scheduler->reload_limits();
}

void RunLimits::set(Limits limits) {
    check_requested(limits);
    // Relaxed, partner: get(). A run reads it when it begins and in reload_limits(), both under its scheduler's lock. A
    // run that begins before reload_limits() takes that lock is updated there; a later one sees this store through the
    // lock.
    packed_.store(pack(limits), std::memory_order_relaxed);
    reload_all_limits();
}

Limits RunLimits::get() const {
    return unpack(packed_.load(std::memory_order_relaxed));  // see set()
}

Limits LimitSources::limits() const {
    Limits limits;
    const auto take = [&limits](Limits source) {
        if (limits.intra_op == 0) limits.intra_op = source.intra_op;
        if (limits.inter_op == 0) limits.inter_op = source.inter_op;
    };
    if (own != nullptr) take(own->get());
    take(requested);
    if (common != nullptr) take(common->get());
    return limits;
}

}  // namespace treadle
