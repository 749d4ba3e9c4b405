// Says what is wrong with a command line.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace roll::cli {

// Returns a sentence about the error with which `app` refused the command line.
std::string problem_text(const CLI::ParseError& error, const CLI::App& app);

}  // namespace roll::cli
