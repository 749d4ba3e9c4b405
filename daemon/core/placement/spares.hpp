// Hot spares: if an attempt loses a node, the next attempt continues on its other nodes, with a
// spare in place of the lost node.
#pragma once

#include <vector>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns the places for the job's next attempt after its current attempt has ended with `outcome`:
// the nodes that did not fail, and the remaining spares. Empty if the attempt had no spares, too
// few nodes are left, or the job may not start now.
std::vector<Place> places_with_spares(const State& state, const Job& job, Outcome outcome,
                                      Time now);

}  // namespace roll::core
