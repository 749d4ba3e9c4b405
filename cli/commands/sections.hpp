// Sections of the list of commands in `rollctl --help`.
#pragma once

#include <string>

namespace roll::cli {

// Returns the section of a command of rollctl, such as "Watch jobs" for `show`. Every command is in
// a section.
std::string section_of(const std::string& command);

}  // namespace roll::cli
