// Measures the processor time of running processes.
#pragma once

#include <chrono>

#include <sys/types.h>

namespace roll::agent {

// Returns the processor time of all live descendants of a process, and of the children for which
// they have waited. Processes that end during the measurement may be missing.
std::chrono::milliseconds cpu_time_below(pid_t ancestor);

}  // namespace roll::agent
