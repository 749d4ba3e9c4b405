// The findings of `rollctl doctor`, one line each.
#pragma once

#include <string>
#include <vector>

#include "cli/context.hpp"

namespace roll::cli {

struct Finding {
    std::string what;
    bool good = true;
    std::string detail;
    std::string remedy;  // a command or advice; never empty if not `good`
};

std::vector<Finding> slurm_findings(const Context& context);

}  // namespace roll::cli
