// What `rollctl doctor` finds, one line each.
#pragma once

#include <string>
#include <vector>

#include "cli/context.hpp"
#include "daemon/slurm/commands.hpp"

namespace roll::cli {

struct Finding {
    std::string what;
    bool good = true;
    std::string detail;
    std::string remedy;  // a command, if it is not good
};

std::vector<Finding> slurm_findings(const Context& context);

// What a node of the cluster sees of us: `srun` of one for a moment. Skipped, with a sentence,
// where none is free at once.
std::vector<Finding> node_findings(const Context& context, const slurm::Site& site);

}  // namespace roll::cli
