// The policies of the core, one per file, in the order in which a turn runs them (rules()).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "daemon/core/core.hpp"

namespace roll::core {

// Time for the workers of a granted allocation to join; after it they are not expected any more.
inline constexpr auto kJoinGrace = std::chrono::minutes(10);
inline constexpr const char* kTimeIsUp = "reached its time limit";
inline constexpr const char* kDeadline = "reached its deadline";

// Ends members whose worker is gone. Their processes are dead before rolld learns of it (leases).
Events end_lost_members(const State& state, Time now);

// Stops attempts that lost a member or exceeded their time limit, or whose job is cancelled. A gang
// runs as a whole or not at all.
Events stop_broken_attempts(const State& state, Time now);

// Ends attempts whose members have all ended, and ends or requeues their jobs.
Events settle_attempts(const State& state, Time now);

// Excludes, for a while, machines on which attempts keep failing.
Events exclude_machines(const State& state, Time now);

// Ends queued jobs that were cancelled, whose dependency can no longer be met, or that cannot
// finish before their deadline.
Events end_hopeless_jobs(const State& state, Time now);

// Queues a convert job after each job that ended well and wants an export.
Events queue_exports(const State& state, Time now);

// Ends a closed group after its last job has ended. The group succeeds if all its jobs did.
Events end_closed_jobs(const State& state, Time now);

// Queues a job at each time of a job with `cron`, unless it is held, the previous such job has
// not ended, or a quota blocks it.
Events send_cron_jobs(const State& state, Time now);

// Marks jobs as due whose begin time or back-off has passed.
Events wake_jobs(const State& state, Time now);

// Places gangs on free slots and GPUs in queue order. After the first gang that must wait, places
// only gangs that cannot delay it (reservation.hpp).
Events place_jobs(const State& state, Time now);

// The first job that must wait and its latest start; nullopt if unknown.
struct Promise {
    JobId job;
    std::optional<Time> at;
};
std::optional<Promise> promised(const State& state, Time now);

// Stops jobs of lower priority if that lets the first waiting job run.
Events preempt_jobs(const State& state, Time now);

// Releases allocations that are about to end, whose queue is being removed or whose workers do
// not join.
Events release_allocations(const State& state, Time now);

// Stops jobs with a checkpoint on allocations that are being given back.
Events hand_over_jobs(const State& state, Time now);

// Orders allocations for the waiting jobs within the queues' limits, and releases unused ones.
Events match_supply(const State& state, Time now);

// Pauses queues whose orders keep failing, and removes queues marked for removal once they are
// empty.
Events settle_queues(const State& state, Time now);

// Returns which limit the job's attempt has reached, its time limit or its deadline; empty if
// none.
std::string time_is_up(const Job& job, Time now);

}  // namespace roll::core
