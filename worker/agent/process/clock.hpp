// The clock of deadlines, and the processor time of processes.
#pragma once

#include <chrono>

#include <sys/types.h>

#include "worker/agent/core/lease.hpp"

namespace roll::agent {

// Reads CLOCK_BOOTTIME, which keeps running while the machine is suspended. The deadlines for
// stopping and killing attempts use this clock.
Instant boot_now();

// Returns the processor time of all live descendants of a process, and of the children for which
// they have waited. Processes that end during the measurement may be missing.
std::chrono::milliseconds cpu_time_below(pid_t ancestor);

}  // namespace roll::agent
