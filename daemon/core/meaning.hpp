// Applies retry.on_exit and retry.on_log to the end of an attempt.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "daemon/core/state.hpp"

namespace roll::core {

// Returns the action after the end of the job's current attempt: the strictest one that its exit
// code and logs select (stop, then avoid_node, then retry). nullopt: the outcome's default
// applies.
std::optional<spec::OnExit> meaning_of(const Job& job, Outcome outcome);

// Returns the labels that this end adds to the job.
std::set<std::string> labels_of(const Job& job, Outcome outcome);

// Returns the log pattern that stops the job; empty if none does.
std::string stopping_pattern(const Job& job, Outcome outcome);

}  // namespace roll::core
