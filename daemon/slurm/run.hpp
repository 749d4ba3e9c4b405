// Runs one Slurm command until it ends or a deadline passes. Any command may hang, and all commands
// block for seconds while slurmctld cannot be reached.
#pragma once

#include <chrono>
#include <string>

#include "daemon/slurm/commands.hpp"

namespace roll::slurm {

struct Finished {
    bool timed_out = false;
    int exit_code = 0;  // exit code as in a shell; 127: the command could not be run
    std::string output{};
    std::string errors{};  // first lines of stderr, without the command's name
};

// Runs the command. Blocks until the command ends, or until the deadline passes. At the deadline,
// the command's process group is killed. The command is also killed if the calling thread ends.
Finished run(const Command& command, std::chrono::milliseconds deadline);

}  // namespace roll::slurm
