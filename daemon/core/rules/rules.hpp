// The policies of the core, one a file, in the order in which a turn runs them (rules()).
#pragma once

#include "daemon/core/core.hpp"

namespace roll::core {

inline constexpr const char* kTimeIsUp = "reached its time limit";

// A member whose worker is gone has ended: its copy is dead before rolld hears of it (leases).
Events end_lost_members(const State& state, Time now);

// An attempt that lost a member, passed its time limit or whose job is cancelled is stopped: a gang
// runs whole or not at all.
Events stop_broken_attempts(const State& state, Time now);

// An attempt whose members have all ended ends, and its job ends with it or goes back to the queue.
Events settle_attempts(const State& state, Time now);

// A queued job that was cancelled, or whose dependency can no longer hold, ends.
Events end_hopeless_jobs(const State& state, Time now);

// A job that ended well and wants an export is followed by a convert job.
Events queue_exports(const State& state, Time now);

// Gangs on free slots and GPUs, by priority, then by age.
Events place_jobs(const State& state, Time now);

// True if the job's attempt has run for as long as it may.
bool time_is_up(const Job& job, Time now);

// True if the `after` of a queued job all hold.
bool dependencies_hold(const State& state, const Job& job);

}  // namespace roll::core
