// Shows that the ROLL_CHECKs of daemon/core fire: each case breaks a rolld that is in use, or calls
// a function against its contract, and must end in one of them.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>

#include "tests/daemon/core/site.hpp"

namespace roll::core {

// A core with jobs in many phases. Each case gets one of its own.
struct Busy : Site {
    Busy();
    Job& the(JobId id) { return state.jobs.at(id); }
    Attempt& run() { return *the(train).attempt; }
    AttemptKey key() const { return attempt(train); }
    Use& use() { return state.use.begin()->second; }
    Allocation& granted() { return state.allocations.begin()->second; }
    AllocationQueue& gpu() { return state.queues.begin()->second; }
    ReadyJobs& line_of(JobId id);

    WorkerId one, two, three;  // n1 and n2 run `train`, n3 runs `fresh` and a task of `array`
    JobId group;               // an open group with one job, which has not begun
    JobId train;               // runs on two nodes, has saved once
    JobId fresh;               // placed; not started yet
    JobId done, retried;       // ended; `retried` in its second attempt
    JobId array;               // two tasks, one of them runs; `waits` depends on both
    JobId waits;
    JobId ready;  // fits on no node
};

// Runs `broken` in a child process. Returns the check that ends it, as "FILE: CONDITION", or what
// the child wrote instead.
std::string fired(const std::function<void()>& broken);

// Returns all ROLL_CHECKs of daemon/core, as fired() names them.
std::set<std::string> all_checks();

using Case = void (*)(Busy& busy);

// The checks that the cases have fired.
std::set<std::string> fired_by_states();
std::set<std::string> fired_by_events();
std::set<std::string> fired_by_calls();

}  // namespace roll::core
