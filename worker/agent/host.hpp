// This machine: its name and its CPUs.
#pragma once

#include <string>
#include <vector>

namespace roll::agent {

std::string host_name();

// The CPUs that this process's affinity leaves it.
std::vector<int> allowed_cpus();
// How many of them it may use at a time: less than there are if a cgroup above it sets a quota.
int cores();

// 128 random bits in hex: names this process among all that ever ran.
std::string draw_session();

}  // namespace roll::agent
