// Describes how a guard starts a program of its plan.
#pragma once

#include <vector>

#include <sys/types.h>

#include "common/io/process.hpp"
#include "worker/agent/process/guard_plan.hpp"

namespace roll::agent {

// Returns the io::Spawn that starts the program in the process group `group` and in the given
// cgroups. The program gets this process's environment and its own variables. `cgroups` has the
// open files cgroup.procs and must outlive the result.
io::Spawn spawn_of(const Program& program, pid_t group, const std::vector<io::Descriptor>& cgroups);

}  // namespace roll::agent
