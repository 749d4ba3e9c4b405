// The policies of the core, one per file, in the order in which a turn runs them (rules()).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "daemon/core/state/event.hpp"

namespace roll::core {

// A rule derives events from State. Each file of this folder has one rule, or a few rules about
// the same thing. A turn runs the rules in order, each on the result of the previous ones,
// and repeats this until no rule returns events.
using Rule = Events (*)(const State& state, Time now);
std::span<const Rule> rules();

// Exit status of a cancelled job, as after Ctrl-C.
inline constexpr int kExitCancelled = 130;

inline constexpr const char* kTimeIsUp = "reached its time limit";
inline constexpr const char* kDeadline = "reached its deadline";

// Ends the members of lost workers. Their processes are already dead, because a worker's lease ends
// before rolld counts the worker as lost.
Events end_lost_members(const State& state, Time now);

// Stops attempts that lost a member or exceeded their time limit, and attempts of cancelled jobs. A
// gang runs as a whole or not at all.
Events stop_broken_attempts(const State& state, Time now);

// Ends attempts whose members have all ended, and ends or requeues their jobs.
Events settle_attempts(const State& state, Time now);

// Excludes, for a time, machines on which attempts keep failing.
Events exclude_machines(const State& state, Time now);

// Ends queued jobs that were cancelled, that have a dependency that can no longer be met, or that
// cannot end before their deadline.
Events end_hopeless_jobs(const State& state, Time now);

// Queues a convert job for each job that ended well and asks for an export.
Events queue_exports(const State& state, Time now);

// Ends a closed group after its last job has ended. The group succeeds if all its jobs have
// succeeded.
Events end_closed_jobs(const State& state, Time now);

// Queues a copy of each `cron` job at each of its times, unless the cron job is held, the previous
// copy has not ended, or a quota blocks it.
Events send_cron_jobs(const State& state, Time now);

// Marks jobs as due when their begin time or back-off has passed.
Events wake_jobs(const State& state, Time now);

// Places gangs on free slots and GPUs in the order of the queue. After the first gang that must
// wait, places only gangs that cannot delay this first gang (reservation.hpp).
Events place_jobs(const State& state, Time now);

// The first job that must wait, and the latest time of its start; nullopt if unknown.
struct Promise {
    JobId job;
    std::optional<Time> at;
};
std::optional<Promise> promised(const State& state, Time now);

// Stops jobs of lower priority if the first waiting job can then run.
Events preempt_jobs(const State& state, Time now);

// Releases allocations that end soon, whose queue is being removed, or whose workers do not join.
Events release_allocations(const State& state, Time now);

// Stops jobs, with a checkpoint, in allocations that are being given back.
Events hand_over_jobs(const State& state, Time now);

// Orders allocations for the waiting jobs within the limits of the queues, and releases unused
// allocations.
Events match_supply(const State& state, Time now);

// Pauses queues whose orders keep failing, and removes queues marked for removal once they are
// empty.
Events settle_queues(const State& state, Time now);

// If the job's attempt has reached its time limit or its deadline, returns a sentence about it;
// else returns an empty text.
std::string time_is_up(const Job& job, Time now);

}  // namespace roll::core
