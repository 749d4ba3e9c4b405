// Runs programs that a rank starts during training: hooks, and exports of checkpoints.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include <sys/types.h>

namespace roll::train {

// Returns `own` and this process's environment, as NAME=VALUE. A variable in `own` replaces the
// variable of the environment.
std::vector<std::string> with_environment(std::vector<std::string> own);

// The state of descriptor 3 of a child. roll-convert writes its reports to this descriptor.
enum class Reports { Closed, Discarded };

// Starts the command in its own process group, with the default signal handlers. The only open file
// that the command inherits is the log. Returns the pid, or a negative error number.
pid_t start_child(std::vector<std::string> command, std::vector<std::string> environment,
                  Reports reports = Reports::Closed);

// Waits until the process ends or `timeout` has passed. In both cases, then kills all processes
// that are left in its process group.
// Returns a sentence that describes a failure, or an empty text.
std::string await_child(pid_t pid, std::chrono::milliseconds timeout);

}  // namespace roll::train
