// Finds this machine's name, addresses and CPUs.
#pragma once

#include <string>
#include <vector>

namespace roll::agent {

std::string host_name();

// Returns the source address with which this machine connects to `endpoint` ("tcp://HOST:PORT").
// Returns an empty string if the address is unknown, or if it is a loopback address, which other
// machines cannot use.
std::string address_towards(const std::string& endpoint);

// Returns an id of this machine's network. Two processes get the same id only if they share a
// loopback interface.
std::string network_id();

// Returns the ids of the CPUs in this process's affinity.
std::vector<int> allowed_cpus();
// Returns how many CPUs this process may use at a time: all in its affinity, or fewer if a cgroup
// has a quota.
int cores();

// Returns 128 random bits in hex, which identify this roll-worker process.
std::string draw_session();

}  // namespace roll::agent
