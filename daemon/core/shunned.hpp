// Where a job is not started though there is room: on nodes where it failed (Job::avoid), while
// others could hold it, be they busy now. A node on which all fails is free sooner than the others.
#pragma once

#include <set>
#include <vector>

#include "daemon/core/room.hpp"

namespace roll::core {

// The workers of nodes that the job avoids.
std::set<WorkerId> avoided_workers(const State& state, const Job& job);

// Those of them that it waits for others than: all, or none if `all`, what the workers have, could
// hold none of the job's `shapes` without them.
std::set<WorkerId> shunned_workers(const State& state, const Job& job, const Room& all,
                                   const std::vector<int>& shapes);

Room without(Room room, const std::set<WorkerId>& workers);

}  // namespace roll::core
