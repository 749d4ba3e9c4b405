// Runs one Slurm command to its end or a deadline. Any command may hang, and all of them block for
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

// Runs the command. Blocks until it ends or the deadline passes; then kills its process group. The
// command is also killed if the calling thread ends.
Finished run(const Command& command, std::chrono::milliseconds deadline);

}  // namespace roll::slurm
