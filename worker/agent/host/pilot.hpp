// Reads the environment of the Slurm allocation that started this roll-worker. The functions are
// pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/protocol/worker.hpp"

namespace roll::agent {

// Returns the value of a variable; empty if it is not set.
std::string value_of(const std::vector<std::string>& environment, std::string_view name);

// Returns CUDA's names of the GPUs given to this process: the entries of CUDA_VISIBLE_DEVICES
// (indices, UUIDs, MIG instances) before the first one that CUDA does not accept. If that variable
// is not set, uses SLURM_STEP_GPUS, then SLURM_JOB_GPUS. Returns nullopt if none of the three is
// set. CUDA_VISIBLE_DEVICES comes first because its numbers are right even in a device cgroup.
// There, CUDA numbers the visible GPUs from 0, but SLURM_*_GPUS have the node's numbers.
std::optional<std::vector<std::string>> given_gpus(const std::vector<std::string>& environment);

// Returns the name under which a pilot (a roll-worker in a Slurm allocation) registers. The name is
// unique even if two allocations share a node.
std::string pilot_node(const std::vector<std::string>& environment, const std::string& host,
                       const std::string& key);

// Returns the network segment of a Slurm step's node. It consists of two parts: all levels above
// the node in SLURM_TOPOLOGY_ADDR ("core.leaf3" for "core.leaf3.node7"), and the NVLink domain
// `nvlink`. All levels are needed, because leaf switches of different trees may have the same name.
// Omits an unknown part; returns an empty string if both parts are unknown.
std::string segment_of(const std::vector<std::string>& environment, const std::string& nvlink);

// Returns true if the pilot's jobs must stop now, because the known end of the allocation is at
// most `margin` away.
bool must_leave(const protocol::PilotNote& pilot, std::chrono::seconds margin,
                std::chrono::seconds now);

}  // namespace roll::agent
