// What roll-worker looks at where a job's file says `check: builtin`, or the site --check builtin.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"

namespace roll::agent {

struct NodeNeeds {
    std::string directory;             // that must take a file and give it back, and have room
    int gpus = 0;                      // that NVML must show
    std::vector<std::string> names{};  // of those GPUs that must be sound
    std::vector<std::string> links{};  // that must be up (links.hpp)
};

// Writes, reads back and removes a file; a GiB must be free. Of the GPUs: none has lost memory rows
// or waits for a reset to replace some, and none has met an uncorrected error since its driver was
// loaded. The first thing that is wrong.
Result<void> check_node(const NodeNeeds& needs);

}  // namespace roll::agent
