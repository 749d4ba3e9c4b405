// Says what is wrong with a command line.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace roll::cli {

// The problem of an option whose value is empty, as a check of CLI11 returns it.
inline const std::string kEmptyValue = "is empty; give a value, or leave the option out";

// Returns a sentence about the error with which `app` refused the command line.
std::string problem_text(const CLI::ParseError& error, const CLI::App& app);

}  // namespace roll::cli
