// The "format"s of strings that schemas/job.schema.json uses.
#pragma once

#include <string_view>

namespace roll::spec {

// What a string of this format may be, in words; empty: there is no such format.
std::string_view format_words(std::string_view format);

// True too if there is no such format.
bool has_format(std::string_view format, std::string_view text);

}  // namespace roll::spec
