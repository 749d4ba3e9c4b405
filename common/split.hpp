// Splits texts, and quotes words for a shell.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace roll {

// Returns the parts of the text between separators: at least one part, which may be empty.
std::vector<std::string> split_at(std::string_view text, char separator);

// Like split_at(), but leaves out empty parts.
std::vector<std::string> words_at(std::string_view text, char separator);

// Returns a word of a sh command line that stands for exactly this text.
std::string shell_quoted(std::string_view text);

}  // namespace roll
