// The machine's network links, as the kernel shows them. A link that was up when roll-worker began
// and is down now is a fault; one that never was is only not used.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace roll::agent {

// Names of the links that are up: interfaces with a device of their own ("eth0"), and ports of
// InfiniBand and RoCE devices ("mlx5_0/1"). `sys`: "/sys". In order.
std::vector<std::string> links_up(const std::filesystem::path& sys);

}  // namespace roll::agent
