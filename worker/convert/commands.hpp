// What roll-convert's commands print and return. stdout is data, stderr is talk.
#pragma once

#include <filesystem>
#include <functional>

#include "worker/convert/options.hpp"

namespace roll::convert {

// What the program adds: parts that this folder may not know.
struct Environment {
    Hooks hooks;
    // Every byte against the manifest of a training checkpoint; nothing to say if it has none.
    std::function<Result<void>(const std::filesystem::path&)> check_manifest;
};

// The exit status.
int run_command(const CommandLine& command, const Environment& environment);

// "error: ..." and the hint on stderr, or as JSON on stdout; returns the exit status.
int report_error(const Error& error, bool json);

}  // namespace roll::convert
