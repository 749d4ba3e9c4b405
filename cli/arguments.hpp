// Functions that look for words of the command line before it is parsed.
#pragma once

#include <string_view>

namespace roll::cli {

bool has_flag(int argc, char** argv, std::string_view flag);
// Returns the name of the command: the first argument that is not an option.
std::string_view first_word(int argc, char** argv);

// Returns the number of leading words that rollctl parses. For `submit` and `shell`, this is the
// number of words before "--". The words after "--" are a program and its arguments, which rollctl
// does not parse. For all other commands, and if there is no "--", the result is `argc`.
int words_before_program(int argc, char** argv);

// Returns whether the command exits with the exit status of a job or of a program in a job.
bool returns_job_status(int argc, char** argv);

}  // namespace roll::cli
