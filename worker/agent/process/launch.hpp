// Plans the start of an attempt on this node: its programs, environment and files. The functions
// are pure.
#pragma once

#include <string>

#include "common/error.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/process/guard_plan.hpp"
#include "worker/agent/process/launch_site.hpp"

namespace roll::agent {

// Plans the programs of an attempt by the job's kind. `train` and `resume` start one roll-rank per
// slot, `convert` and `merge` one roll-convert, and `command` starts the job's own program. Fails
// with InvalidArgument if the document of a `command` job names no program.
Result<GuardPlan> plan_launch(const protocol::StartOrder& order, const LaunchSite& site);

// Returns the path of the attempt's directory "logs/attempt-N" in the job's output directory.
std::string logs_of(const protocol::StartOrder& order);

}  // namespace roll::agent
