// Says what is wrong with a command line.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "common/error.hpp"

namespace roll::cli {

// The message that a check of CLI11 returns for an option with an empty value.
inline const std::string kEmptyValue = "is empty; give a value, or leave the option out";

// Returns a sentence about the error with which `app` refused the command line.
std::string problem_text(const CLI::ParseError& error, const CLI::App& app);

// Returns the error for a word that is not one of the commands `known`. Names the command of
// rollctl to use if `word` is a command of Slurm.
Error unknown_command(const std::string& word, const std::vector<std::string>& known);

}  // namespace roll::cli
