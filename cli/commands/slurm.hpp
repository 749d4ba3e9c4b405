// The commands `slurm` and `compat`, with which users run Slurm's command lines on Roll's queue.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/commands/commands.hpp"
#include "cli/slurm/sbatch.hpp"

namespace roll::cli {

// Submits a batch script of Slurm.
Result<int> submit_batch(const Context& context, const SubmitOptions& options, SbatchJob job);

// Runs "slurm PROGRAM ARGUMENT..." or "compat DIR". PROGRAM is sbatch, squeue, sacct, scancel or
// sinfo.
Result<int> run_slurm(const Context& context, const std::vector<std::string>& words);

// Writes programs with the names of Slurm's commands to a directory. If the directory has a program
// of Slurm, fails with Refused and writes nothing.
Result<int> run_compat(const Context& context, const std::string& directory);

// Returns the command of rollctl to use instead of a command of Slurm. Returns an empty text if
// Slurm has no command `program`.
std::string command_for(std::string_view program);

}  // namespace roll::cli
