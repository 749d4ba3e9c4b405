// Functions that look for words of the command line before it is parsed.
#pragma once

#include <string_view>

namespace roll::cli {

bool has_flag(int argc, char** argv, std::string_view flag);
// Returns the name of the command: the first argument that is not an option.
std::string_view first_word(int argc, char** argv);

}  // namespace roll::cli
