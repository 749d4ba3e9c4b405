// Hot spares: an attempt that loses a node goes on with what it held, its spares in the node's
// place.
#pragma once

#include <vector>

#include "daemon/core/state.hpp"

namespace roll::core {

// The places of the attempt that follows this job's current one, which has ended as `outcome`: on
// its own nodes without the one to blame, with as many spares as are left. None: it had no spares,
// too few of its nodes are left, or it may not start now.
std::vector<Place> places_with_spares(const State& state, const Job& job, Outcome outcome,
                                      Time now);

}  // namespace roll::core
