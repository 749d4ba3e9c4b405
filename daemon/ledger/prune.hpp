// Selects the jobs that may be removed. Pure.
#pragma once

#include <set>

#include "daemon/core/event.hpp"

namespace roll::ledger {

// Returns jobs that ended before `cutoff` and that no kept job refers to: as a dependency, a
// source, or the other side of an automatic export. Keeps the newest job, so that no number is
// reused.
std::set<JobId> forgettable(const core::State& state, Time cutoff);

// Returns events that carry over the resource use of removed jobs, for fair share and quotas of
// GPU-hours.
core::Events carried_uses(const core::State& state);

}  // namespace roll::ledger
