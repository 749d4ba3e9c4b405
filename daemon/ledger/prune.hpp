// Which jobs may be forgotten. Pure.
#pragma once

#include <set>

#include "daemon/core/state.hpp"

namespace roll::ledger {

// Jobs that ended before `cutoff` and that no job which stays names: as a dependency, a source, or
// the two ends of an automatic export. The newest job stays, so that no number is given twice.
std::set<JobId> forgettable(const core::State& state, Time cutoff);

}  // namespace roll::ledger
