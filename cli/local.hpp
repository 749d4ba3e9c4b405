// The private pair on this machine: finding, starting and ending rolld and roll-worker.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

#include "common/error.hpp"

namespace roll::cli {

// The path of a program that was installed with this one. Error NotFound.
Result<std::string> program_path(const std::string& name);

// Starts a program in a session of its own, its output appended to `log`. It goes on without us.
Result<pid_t> start_in_background(const std::vector<std::string>& arguments,
                                  const std::filesystem::path& log);

// True once the process is gone.
bool wait_gone(pid_t pid, std::chrono::milliseconds patience);

// The last lines of a file behind its first `since` bytes, for telling why a program did not start.
std::string last_lines(const std::filesystem::path& file, std::size_t count, std::uintmax_t since);

}  // namespace roll::cli
