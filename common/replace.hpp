// Replaces parts of a text.
#pragma once

#include <string>
#include <string_view>

namespace roll {

// Returns `text` with each occurrence of `mark` replaced by `value`.
std::string replaced(std::string_view text, std::string_view mark, std::string_view value);

}  // namespace roll
