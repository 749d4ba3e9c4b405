// The policies of the core, one a file, in the order in which a turn runs them (rules()).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "daemon/core/core.hpp"

namespace roll::core {

// The workers of a granted allocation that have not come by then will not.
inline constexpr auto kJoinGrace = std::chrono::minutes(10);
inline constexpr const char* kTimeIsUp = "reached its time limit";
inline constexpr const char* kDeadline = "reached its deadline";

// A member whose worker is gone has ended: its copy is dead before rolld hears of it (leases).
Events end_lost_members(const State& state, Time now);

// An attempt that lost a member, passed its time limit or whose job is cancelled is stopped: a gang
// runs whole or not at all.
Events stop_broken_attempts(const State& state, Time now);

// An attempt whose members have all ended ends, and its job ends with it or goes back to the queue.
Events settle_attempts(const State& state, Time now);

// A machine on which attempts keep failing is left out for a while.
Events exclude_machines(const State& state, Time now);

// A queued job that was cancelled, whose dependency can no longer hold, or that can no longer end
// before its deadline, ends.
Events end_hopeless_jobs(const State& state, Time now);

// A job that ended well and wants an export is followed by a convert job.
Events queue_exports(const State& state, Time now);

// A closed job ends with the last job that was put into it: well if all of them did.
Events end_closed_jobs(const State& state, Time now);

// At each of its times a job with `cron` is followed by one without, unless it is held, the last
// such job is not over, or a quota has no place for it.
Events send_cron_jobs(const State& state, Time now);

// A job whose begin time or back-off has come is due.
Events wake_jobs(const State& state, Time now);

// Gangs on free slots and GPUs in the order of the queue; behind the first that must wait, those
// that cannot delay it (reservation.hpp).
Events place_jobs(const State& state, Time now);

// The first job that must wait, and when it starts at the latest; none: that cannot be told.
struct Promise {
    JobId job;
    std::optional<Time> at;
};
std::optional<Promise> promised(const State& state, Time now);

// Where the first job that waits could run if jobs of lower priority made room, they are stopped.
Events preempt_jobs(const State& state, Time now);

// An allocation that is about to end, whose queue is being removed or whose workers do not come is
// to go back.
Events release_allocations(const State& state, Time now);

// Jobs on an allocation that goes back save and leave.
Events hand_over_jobs(const State& state, Time now);

// Orders what the waiting jobs lack, within the queues' limits; what no job needs goes back.
Events match_supply(const State& state, Time now);

// A queue whose orders keep failing is paused; one that is removed goes when nothing of it is left.
Events settle_queues(const State& state, Time now);

// Why the job's attempt has run for as long as it may: its limit or its deadline; empty: it has
// not.
std::string time_is_up(const Job& job, Time now);

}  // namespace roll::core
