// How a guard starts a program of its plan.
#pragma once

#include <vector>

#include <sys/types.h>

#include "common/io/process.hpp"
#include "worker/agent/process/guard_plan.hpp"

namespace roll::agent {

// Returns how to start the program in the process group `group`, in the given cgroups, with this
// process's environment and the variables of the program. `cgroups` has the open files cgroup.procs
// and must outlive the result.
io::Spawn spawn_of(const Program& program, pid_t group, const std::vector<io::Descriptor>& cgroups);

}  // namespace roll::agent
