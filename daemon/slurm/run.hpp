// Runs one Slurm command to its end or a deadline. Each may hang, and all of them block for
// seconds while slurmctld is unreachable.
#pragma once

#include <chrono>
#include <string>

#include "daemon/slurm/commands.hpp"

namespace roll::slurm {

struct Finished {
    bool timed_out = false;
    int exit_code = 0;  // as in a shell; 127: the command could not be run
    std::string output{};
    std::string errors{};  // first lines, without the command's name
};

// Blocks. Kills the command's process group at the deadline. The command is also killed if the
// calling thread ends.
Finished run(const Command& command, std::chrono::milliseconds deadline);

}  // namespace roll::slurm
