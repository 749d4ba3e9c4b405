// What retry.on_exit and retry.on_log say of the end of an attempt.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "daemon/core/state.hpp"

namespace roll::core {

// What the job's current attempt, if it ends so, is to be followed by: the strictest of all that
// its exit code and log mean (stop, then avoid_node, then retry); none: what its class says.
std::optional<spec::OnExit> meaning_of(const Job& job, Outcome outcome);

// The labels that this end gives the job.
std::set<std::string> labels_of(const Job& job, Outcome outcome);

// The pattern of the log that stops the job; empty: none does.
std::string stopping_pattern(const Job& job, Outcome outcome);

}  // namespace roll::core
