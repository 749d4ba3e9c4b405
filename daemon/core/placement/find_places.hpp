// Finds the places where a gang fits.
#pragma once

#include <set>
#include <vector>

#include "daemon/core/placement/capacity.hpp"

namespace roll::core {

// Returns the places of a gang, the spares last; empty if the gang does not fit as a whole. Workers
// in `avoid` are used only if the other workers do not suffice. Among the other workers, the
// workers with the least free capacity come first, so that whole nodes stay free for wide gangs
// (segments.hpp, gpu_affinity.hpp).
std::vector<Place> find_places(const spec::Resources& wanted, const Capacity& capacity,
                               const std::set<WorkerId>& avoid = {});

}  // namespace roll::core
