// The node check that is built into roll-worker. A job file selects it with `check: builtin`, and a
// site with `--check builtin`.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::agent {

// Returns the sorted names of the links that are up: interfaces of a hardware device ("eth0") and
// ports of InfiniBand and RoCE devices ("mlx5_0/1"). `sys` is "/sys".
std::vector<std::string> links_up(const std::filesystem::path& sys);

struct NodeNeeds {
    std::string directory;  // directory that must be writable and readable and have space
    int gpus = 0;           // number of GPUs that NVML must show
    std::vector<std::string> names{};  // names of GPUs that must have no memory fault
    std::vector<std::string> links{};  // network links that must be up
};

// Checks that the node meets `needs`; returns the first failure. Writes, reads back and removes a
// file in the directory. The directory needs 1 GiB of free space. A GPU fails if it has lost memory
// rows, needs a reset to remap rows, or has had an uncorrected error since its driver was loaded.
Result<void> check_node(const NodeNeeds& needs);

}  // namespace roll::agent
