// Lists the network links that are up. If a link was up when roll-worker started and is down now,
// the node has a fault. A link that was never up is unused.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace roll::agent {

// Returns the sorted names of the links that are up: interfaces of a hardware device ("eth0") and
// ports of InfiniBand and RoCE devices ("mlx5_0/1"). `sys` is "/sys".
std::vector<std::string> links_up(const std::filesystem::path& sys);

}  // namespace roll::agent
