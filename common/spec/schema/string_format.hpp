// The string "format"s that schemas/job.schema.json uses.
#pragma once

#include <string_view>

namespace roll::spec {

// Returns a description of the strings that have this format; empty if the format is unknown.
std::string_view format_words(std::string_view format);

// Returns whether the text has this format; true if the format is unknown.
bool has_format(std::string_view format, std::string_view text);

}  // namespace roll::spec
