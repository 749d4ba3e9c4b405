// Keeps a job off the nodes where it failed (Job::avoid) if other nodes could hold the job, even if
// these are busy now. A node on which everything fails is often free, so jobs would otherwise often
// get such a node.
#pragma once

#include <set>
#include <vector>

#include "daemon/core/placement/capacity.hpp"

namespace roll::core {

// Returns the workers on nodes that the job avoids.
std::set<WorkerId> avoided_workers(const State& state, const Job& job);

// Returns the workers that the job must not use: all avoided workers if one of the variants
// `shapes` (indices) fits on the other workers, else none. `all` is the whole capacity of all
// workers, because it does not matter whether the other workers are busy now.
std::set<WorkerId> forbidden_workers(const State& state, const Job& job, const Capacity& all,
                                     const std::vector<int>& shapes);

Capacity without(Capacity capacity, const std::set<WorkerId>& workers);

}  // namespace roll::core
