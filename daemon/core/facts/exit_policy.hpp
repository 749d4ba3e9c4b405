// Decides how the end of an attempt is treated, by the user's rules retry.on_exit, retry.on_log and
// retry.no_progress.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "daemon/core/state/state.hpp"

namespace roll::core {

// Returns how the user's rules treat the end of the job's current attempt. If several rules match
// its exit code and logs, the strictest action applies: stop before avoid_node before retry.
// Returns nullopt if no rule matches; the outcome then decides.
std::optional<spec::OnExit> exit_policy_of(const Job& job, Outcome outcome);

// Returns the labels that the end of the current attempt adds to the job.
std::set<std::string> labels_of(const Job& job, Outcome outcome);

// Returns the retry.on_log pattern that stops the job; empty if no pattern stops the job.
std::string stopping_pattern(const Job& job, Outcome outcome);

// Returns how many consecutive attempts of a training job have failed without saving a newer
// checkpoint. Counts the current attempt as if it ended with `outcome`.
int stalled_after(const Job& job, Outcome outcome);

}  // namespace roll::core
