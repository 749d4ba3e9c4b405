// Finds, starts and stops the rolld and roll-worker of one user on this machine.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"

namespace roll::cli {

// Returns the path of the program `name`, which must be in the directory of this program. Fails
// with NotFound if the directory has no such program.
Result<std::string> program_path(const std::string& name);

// Starts a program in its own session, so that it outlives rollctl, and appends its output to
// `log`. Returns its pid.
Result<pid_t> start_in_background(const std::vector<std::string>& arguments,
                                  const std::filesystem::path& log);

// Waits up to `patience` for the process to end. Returns whether it has ended.
bool wait_gone(pid_t pid, std::chrono::milliseconds patience);

// Returns the last `count` lines of a file, without lines that begin in its first `since` bytes.
// Callers print these lines to explain why a program did not start.
std::string last_lines(const std::filesystem::path& file, std::size_t count, std::uintmax_t since);

}  // namespace roll::cli
