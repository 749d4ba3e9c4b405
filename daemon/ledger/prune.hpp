// Selects the jobs that may be removed from the ledger. The functions are pure.
#pragma once

#include <set>

#include "daemon/core/state/event.hpp"

namespace roll::ledger {

// Returns the jobs that ended before `cutoff` and that no kept job needs. For example, a job needs
// its dependencies and its source job. A training job and the job that exports its model need each
// other. Never returns the newest job, so that no number is reused.
std::set<JobId> forgettable(const core::State& state, Time cutoff);

// Returns the events that keep the resource use of removed jobs, for fair share and quotas of
// GPU-hours.
core::Events carried_uses(const core::State& state);

}  // namespace roll::ledger
