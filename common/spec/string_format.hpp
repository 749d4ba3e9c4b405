// The string "format"s that schemas/job.schema.json uses.
#pragma once

#include <string_view>

namespace roll::spec {

// Describes the strings of this format; empty if there is no such format.
std::string_view format_words(std::string_view format);

// Returns whether the text has this format; true if there is no such format.
bool has_format(std::string_view format, std::string_view text);

}  // namespace roll::spec
