// Says what is wrong with a command line.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace roll::cli {

// The message that a check of CLI11 returns for an option with an empty value.
inline const std::string kEmptyValue = "is empty; give a value, or leave the option out";

// Returns a sentence about the error with which `app` refused the command line.
std::string problem_text(const CLI::ParseError& error, const CLI::App& app);

}  // namespace roll::cli
