// The findings of `rollctl doctor`. Each finding is printed on one line.
#pragma once

#include <string>
#include <vector>

#include "cli/client/context.hpp"

namespace roll::cli {

struct Finding {
    std::string what;
    bool good = true;
    std::string detail;
    std::string remedy;  // advice, or a command to run; not empty if `good` is false
};

std::vector<Finding> slurm_findings(const Context& context);

}  // namespace roll::cli
