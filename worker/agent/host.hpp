// This machine: its name and its CPUs.
#pragma once

#include <string>
#include <vector>

namespace roll::agent {

std::string host_name();

// Returns the ids of the CPUs in this process's affinity.
std::vector<int> allowed_cpus();
// Returns how many of them may run at a time; a cgroup quota may allow fewer than the affinity.
int cores();

// Returns 128 random bits in hex, the unique name of this process.
std::string draw_session();

}  // namespace roll::agent
