// Directories to which `rollctl compat` wrote programs. The programs have the names of Slurm's
// commands, such as sbatch.
#pragma once

#include <string>
#include <vector>

namespace roll::io {

// The name of a file that `rollctl compat` writes to its directory.
inline constexpr const char* kCompatMark = ".roll-compat";

// Returns a copy of the environment ("NAME=value") whose PATH lacks the directories of `rollctl
// compat`. rolld runs Slurm's own programs with this environment.
std::vector<std::string> without_compat(std::vector<std::string> environment);

}  // namespace roll::io
