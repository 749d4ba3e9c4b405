// Files in memory, for the input of a program that the command starts.
#pragma once

#include <string>

#include "common/error.hpp"

namespace roll::cli {

// Creates a file in memory with this content and returns its path. The kernel deletes the file when
// no process has it open.
Result<std::string> in_memory(const std::string& content);

}  // namespace roll::cli
