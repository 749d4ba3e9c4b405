// Slurm's commands for Roll's queue. Each function prints in the format of Slurm's command of the
// same name, and returns the exit status.
#pragma once

#include <string>
#include <vector>

#include "cli/client/context.hpp"
#include "common/error.hpp"

namespace roll::cli {

Result<int> run_squeue(const Context& context, const std::vector<std::string>& words);
Result<int> run_sacct(const Context& context, const std::vector<std::string>& words);
Result<int> run_scancel(const Context& context, const std::vector<std::string>& words);
Result<int> run_sinfo(const Context& context, const std::vector<std::string>& words);

}  // namespace roll::cli
