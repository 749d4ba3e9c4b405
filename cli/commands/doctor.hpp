// What `rollctl doctor` finds, one line each.
#pragma once

#include <string>
#include <vector>

#include "cli/context.hpp"

namespace roll::cli {

struct Finding {
    std::string what;
    bool good = true;
    std::string detail;
    std::string remedy;  // a command, if it is not good
};

std::vector<Finding> slurm_findings(const Context& context);

}  // namespace roll::cli
