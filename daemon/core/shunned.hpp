// Excludes nodes where the job failed (Job::avoid) as long as other nodes could hold it, even if
// those are busy. A node on which everything fails is free more often than others.
#pragma once

#include <set>
#include <vector>

#include "daemon/core/room.hpp"

namespace roll::core {

// Returns the workers on nodes that the job avoids.
std::set<WorkerId> avoided_workers(const State& state, const Job& job);

// Returns the avoided workers that must not be used: all of them if the job fits on the rest of
// `all` (the workers' whole capacity) in one of `shapes`, else none.
std::set<WorkerId> shunned_workers(const State& state, const Job& job, const Room& all,
                                   const std::vector<int>& shapes);

Room without(Room room, const std::set<WorkerId>& workers);

}  // namespace roll::core
