// The output and exit status of roll-convert's commands. stdout carries data, stderr messages.
#pragma once

#include <filesystem>
#include <functional>

#include "worker/convert/options.hpp"

namespace roll::convert {

// Functions that main() supplies because this folder may not depend on their modules.
struct Environment {
    Hooks hooks;
    // Checks every byte against the training checkpoint's manifest; does nothing if there is no
    // manifest.
    std::function<Result<void>(const std::filesystem::path&)> check_manifest;
};

// Returns the exit status.
int run_command(const CommandLine& command, const Environment& environment);

// Prints "error: ..." and the hint on stderr, or JSON on stdout. Returns the exit status.
int report_error(const Error& error, bool json);

}  // namespace roll::convert
