// roll-worker's own check of its node, before a gang starts on it.
#pragma once

#include <string>

#include "common/error.hpp"

namespace roll::agent {

// Writes, syncs and reads back a file in the directory, and counts GPUs by NVML. An error says what
// is wrong with the node.
Result<void> check_node(const std::string& directory, int gpus);

}  // namespace roll::agent
