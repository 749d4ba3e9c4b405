// This machine: its name and its CPUs.
#pragma once

#include <string>
#include <vector>

namespace roll::agent {

std::string host_name();

// Returns the ids of the CPUs in this process's affinity.
std::vector<int> allowed_cpus();
// Returns how many CPUs this process may use at a time: all in its affinity, or fewer if a cgroup
// has a quota.
int cores();

// Returns 128 random bits in hex, which identify this roll-worker process.
std::string draw_session();

}  // namespace roll::agent
