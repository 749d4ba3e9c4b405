// Decides whether, and for how long, a worker may get new work.
#pragma once

#include <optional>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns whether the worker may get new work. If `excluded` is set, ignores an exclusion of the
// worker's machine.
bool takes_work(const State& state, const Worker& worker, bool excluded = false);

// Returns the time by which all jobs must have left the worker; nullopt if the worker runs in no
// allocation.
std::optional<Time> leaves_at(const State& state, const Worker& worker);

// Returns whether a job that starts now can use its full time limit before `leaves`.
bool has_time_for(const std::optional<Time>& leaves, const spec::Resources& wanted, Time now);

// Returns whether the worker could hold a member of a job with `wanted` if nothing else ran there.
bool is_large_enough(const Worker& worker, const spec::Resources& wanted);

// Returns whether the nodes that the queue requests are large enough for a member with `wanted`,
// and whether they are granted for a long enough time.
bool offers(const spec::PilotQueue& queue, const spec::Resources& wanted);

// Returns the number of CPUs of a node that the queue requests. This is the number of slots,
// because Roll requests one CPU per slot from Slurm.
inline int cpus_of(const spec::PilotQueue& queue) { return queue.slots; }

}  // namespace roll::core
