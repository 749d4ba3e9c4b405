// What a roll-worker learns from the Slurm allocation that it was started in. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/protocol/worker.hpp"

namespace roll::agent {

// The value of a variable; empty if it is not set.
std::string value_of(const std::vector<std::string>& environment, std::string_view name);

// What CUDA calls the GPUs that this process was given, by our own index: the entries of
// CUDA_VISIBLE_DEVICES (indices, UUIDs, MIG instances), up to the first that CUDA would not read.
// Inside a device cgroup these are renumbered from 0, while SLURM_*_GPUS stay the node's own
// numbers: so CUDA_VISIBLE_DEVICES goes first, and SLURM_STEP_GPUS, then SLURM_JOB_GPUS stand in
// where a site's Slurm does not set it. None: nothing was said about GPUs.
std::optional<std::vector<std::string>> given_gpus(const std::vector<std::string>& environment);

// The name under which a pilot registers: two allocations may share a node.
std::string pilot_node(const std::vector<std::string>& environment, const std::string& host,
                       const std::string& key);

// The network segment of a Slurm step's node by SLURM_TOPOLOGY_ADDR ("core.leaf3.node7"): all above
// the node, so that leaves of two trees differ; below it the NVLink domain, if the node is in one.
// Empty where neither is known.
std::string segment_of(const std::vector<std::string>& environment, const std::string& nvlink);

// Whether its jobs must leave now: `margin` before the end that it knows of.
bool must_leave(const protocol::PilotNote& pilot, std::chrono::seconds margin,
                std::chrono::seconds now);

}  // namespace roll::agent
