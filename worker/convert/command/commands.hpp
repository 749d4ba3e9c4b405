// Runs roll-convert's commands. Data goes to stdout, and messages go to stderr.
#pragma once

#include <filesystem>
#include <functional>

#include "worker/convert/command/options.hpp"

namespace roll::convert {

// Functions that main() supplies, because this folder may not depend on the modules that define
// these functions.
struct Environment {
    Hooks hooks;
    // Checks every byte of a training checkpoint against its manifest. Does nothing if the
    // directory has no manifest.
    std::function<Result<void>(const std::filesystem::path&)> check_manifest;
};

// Runs one command and returns its exit status.
int run_command(const CommandLine& command, const Environment& environment);

// Prints an error: as "roll-convert: ..." and the hint on stderr or, if `json` is true, as JSON on
// stdout. Returns the exit status. The log of a job that roll-worker launched has "error: ..."
// instead, because its reader did not call this program.
int report_error(const Error& error, bool json);

}  // namespace roll::convert
