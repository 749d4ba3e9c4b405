// Keeps a job off the nodes where it failed (Job::avoid) if other nodes could hold the job. The job
// then waits for the other nodes even if they are busy now. A node on which every job fails is
// often free, so without this rule jobs would often be placed on it.
#pragma once

#include <set>
#include <vector>

#include "daemon/core/placement/capacity.hpp"

namespace roll::core {

// Returns the workers on nodes that the job avoids.
std::set<WorkerId> avoided_workers(const State& state, const Job& job);

// Returns the workers that the job must not use. These are the workers that the job avoids if a
// variant of the job fits on the other workers. Otherwise there are none. `shapes` has the indices
// of the variants to try. `all` is the capacity of all workers when they are idle, because the job
// also waits for workers that are busy now.
std::set<WorkerId> forbidden_workers(const State& state, const Job& job, const Capacity& all,
                                     const std::vector<int>& shapes);

// Returns the capacity without that of `workers`.
Capacity without(Capacity capacity, const std::set<WorkerId>& workers);

}  // namespace roll::core
