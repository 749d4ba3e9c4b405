// Runs one of Slurm's commands to its end, or to a deadline: each may hang, and every one
// of them blocks for seconds when slurmctld is away.
#pragma once

#include <chrono>
#include <string>

#include "daemon/slurm/commands.hpp"

namespace roll::slurm {

struct Finished {
    bool timed_out = false;
    int exit_code = 0;  // as a shell shows it; 127: it could not be run
    std::string output{};
    std::string errors{};  // the first lines, without the command's own name
};

// Blocks. Past the deadline the command's whole process group is killed; it is killed as well when
// the calling thread ends.
Finished run(const Command& command, std::chrono::milliseconds deadline);

}  // namespace roll::slurm
