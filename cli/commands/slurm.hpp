// The commands `slurm` and `compat`: Slurm's command lines for Roll's queue.
#pragma once

#include <string>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/slurm/sbatch.hpp"

namespace roll::cli {

// Submits a batch script of Slurm.
Result<int> submit_batch(const Context& context, const SubmitOptions& options, SbatchJob job);

// Carries out "slurm PROGRAM ARGUMENT...", where the program is sbatch, squeue, sacct, scancel or
// sinfo, and "compat DIR".
Result<int> run_slurm(const Context& context, const std::vector<std::string>& words);

// Writes programs with the names of Slurm's commands to a directory. Fails with Refused, and writes
// nothing, if the directory has a program of Slurm.
Result<int> run_compat(const Context& context, const std::string& directory);

}  // namespace roll::cli
