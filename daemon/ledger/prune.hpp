// Which jobs may be forgotten. Pure.
#pragma once

#include <set>

#include "daemon/core/event.hpp"

namespace roll::ledger {

// Jobs that ended before `cutoff` and that no job which stays names: as a dependency, a source, or
// the two ends of an automatic export. The newest job stays, so that no number is given twice.
std::set<JobId> forgettable(const core::State& state, Time cutoff);

// What fair share and quotas of GPU-hours count, as events: what the forgotten jobs used stays.
core::Events carried_uses(const core::State& state);

}  // namespace roll::ledger
