// Unicode normal form C (NFC) for the characters of Unicode 9, as in the tokenizers package.
#pragma once

#include <string>
#include <string_view>

namespace roll::tokenizer {

// Returns the text in form C. `text` must be valid UTF-8.
std::string composed(std::string_view text);

}  // namespace roll::tokenizer
