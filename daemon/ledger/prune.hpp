// Selects the jobs that may be removed from the ledger. The functions are pure.
#pragma once

#include <set>

#include "daemon/core/state/event.hpp"

namespace roll::ledger {

// Returns the jobs that ended before `cutoff` and that no kept job needs. A kept job needs, for
// example, its dependencies, its source job, and the training or export job of its automatic
// export. Never returns the newest job, so that no number is reused.
std::set<JobId> forgettable(const core::State& state, Time cutoff);

// Returns the events that keep the resource use of removed jobs, for fair share and quotas of
// GPU-hours.
core::Events carried_uses(const core::State& state);

}  // namespace roll::ledger
