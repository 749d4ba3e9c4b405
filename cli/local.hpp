// Helpers to find, start and stop a private rolld and roll-worker on this machine.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"

namespace roll::cli {

// Returns the path of a program installed beside this one. Fails with NotFound.
Result<std::string> program_path(const std::string& name);

// Starts a program in a session of its own and appends its output to `log`. The program outlives
// rollctl.
Result<pid_t> start_in_background(const std::vector<std::string>& arguments,
                                  const std::filesystem::path& log);

// Waits up to `patience` for the process to end; returns whether it did.
bool wait_gone(pid_t pid, std::chrono::milliseconds patience);

// Returns the last `count` lines of a file, ignoring its first `since` bytes. Used to show why a
// program did not start.
std::string last_lines(const std::filesystem::path& file, std::size_t count, std::uintmax_t since);

}  // namespace roll::cli
