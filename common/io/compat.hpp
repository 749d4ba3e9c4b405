// Directories with programs that `rollctl compat` wrote. These programs have the names of Slurm's.
#pragma once

#include <string>
#include <vector>

namespace roll::io {

// The name of a file that `rollctl compat` writes to its directory.
inline constexpr const char* kCompatMark = ".roll-compat";

// Returns the environment ("NAME=value") with a PATH that lacks the directories to which `rollctl
// compat` wrote. rolld uses it for Slurm's own programs.
std::vector<std::string> without_compat(std::vector<std::string> environment);

}  // namespace roll::io
