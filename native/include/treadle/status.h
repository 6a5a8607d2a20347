// Status: a snapshot of a team.
#pragma once

#include <cstdint>
#include <string>

namespace treadle {

struct Status {
    int workers = 0;           // compute threads that are alive
    int blocking = 0;          // blocking workers that are alive
    int abandoned = 0;         // detached workers: threads in host steps of abandoned runs
    int slots = 0;             // in use
    int spinning = 0;          // idle workers that are not parked
    int runs = 0;              // in progress, queued ones included
    int waiting = 0;           // runs without a worker
    std::uint64_t wake_ups = 0;  // of parked compute workers that were to help with runs, so far
    std::string pin_fault;     // why a worker is not pinned as requested; empty if all are
    std::string thread_fault;  // why there are fewer threads than there should be; empty if there are enough
};

}  // namespace treadle
