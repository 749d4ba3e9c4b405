// Runs one Slurm command until it ends or a deadline passes. Any command may hang, and all commands
// block for seconds while slurmctld cannot be reached.
#pragma once

#include <chrono>

#include "common/io/run.hpp"
#include "daemon/slurm/commands.hpp"

namespace roll::slurm {

// Runs the command. A command that cannot be run ends with exit code 127 and the reason.
inline io::Finished run(const Command& command, std::chrono::milliseconds deadline) {
    auto finished = io::run({.arguments = command.arguments,
                             .environment = command.environment,
                             .umask = command.umask},
                            {.input = command.input, .deadline = deadline});
    if (!finished) return {.exit_code = 127, .errors = finished.error().message};
    return *std::move(finished);
}

}  // namespace roll::slurm
