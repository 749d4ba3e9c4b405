// The rules of the core, in the order in which a turn runs them. place.hpp has the rule that places
// jobs.
#pragma once

#include <span>
#include <string>

#include "daemon/core/state/event.hpp"

namespace roll::core {

// A rule derives events from State. Each file of this folder has one rule, or a few rules about the
// same subject. A turn runs the rules in order, and each rule sees the State that the rules before
// it have produced. The turn repeats all rules until none returns events.
using Rule = Events (*)(const State& state, Time now);
std::span<const Rule> rules();

// Ends the members of lost workers. The processes of these members are already dead: a worker kills
// its processes before rolld counts the worker as lost.
Events end_lost_members(const State& state, Time now);

// Releases allocations that end soon, whose queue is being removed, or whose workers do not join.
Events release_allocations(const State& state, Time now);

// Stops jobs, with a checkpoint, in allocations that are being released.
Events hand_over_jobs(const State& state, Time now);

// Stops attempts that lost a member or exceeded their time limit, and attempts of cancelled jobs. A
// gang runs as a whole or not at all.
Events stop_broken_attempts(const State& state, Time now);

inline constexpr const char* kTimeIsUp = "reached its time limit";
inline constexpr const char* kDeadline = "reached its deadline";

// Returns a sentence that says that the job's attempt has reached its time limit or its deadline;
// empty if the attempt has reached neither.
std::string time_is_up(const Job& job, Time now);

// Ends attempts whose members have all ended, and ends or requeues their jobs.
Events settle_attempts(const State& state, Time now);

// Exit status of a cancelled job, as after Ctrl-C.
inline constexpr int kExitCancelled = 130;

// Temporarily excludes machines on which attempts keep failing.
//
// The policy sets how many faults, within what time, exclude a machine. The faults must come from
// at least two jobs, because one job may cause faults everywhere. A machine is excluded at once if
// a check of the machine itself fails. If only one machine still takes jobs, it is not excluded.
//
// An excluded machine is used again if a ready job fits on no other machine. A machine whose own
// check failed stays excluded for the whole time, because no job can run there.
Events exclude_machines(const State& state, Time now);

// Ends queued jobs that were cancelled, that have a dependency that can no longer be met, or that
// cannot end before their deadline.
Events end_hopeless_jobs(const State& state, Time now);

// Queues a convert job for each job that ended well and asks for an export.
Events queue_exports(const State& state, Time now);

// Ends a closed group after its last job has ended. The group succeeds if all its jobs have
// succeeded.
Events end_closed_jobs(const State& state, Time now);

// Queues a copy of each `cron` job at each of its times. Skips a time if the cron job is held, if
// the previous copy has not ended, or if a quota blocks the copy.
Events send_cron_jobs(const State& state, Time now);

// Marks jobs as due when their begin time or back-off has passed.
Events wake_jobs(const State& state, Time now);

// If preemption lets the first waiting job run, stops the attempts whose resources this job needs.
//
// An attempt must have run for the policy's `min_run`, and its job must have a lower priority than
// the waiting job. If the attempt's job borrows, and the waiting job fits into its own account's
// quota, the priorities do not matter. The attempt stops after a checkpoint, as at a time limit,
// and its job is requeued. Between two preemptions, a job therefore runs for at least `min_run`.
Events preempt_jobs(const State& state, Time now);

// Requests the nodes that the waiting jobs lack (allocation/planner.hpp), within the limits of the
// queues, and releases unused allocations.
Events match_supply(const State& state, Time now);

// Pauses queues whose allocation requests keep failing. Removes queues marked for removal once they
// are empty.
Events settle_queues(const State& state, Time now);

}  // namespace roll::core
