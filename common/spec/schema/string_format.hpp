// The string "format"s and the patterns that schemas/job.schema.json uses.
#pragma once

#include <string>
#include <string_view>

namespace roll::spec {

// Returns a description of the strings that have this format; empty if the format is unknown.
std::string_view format_words(std::string_view format);

// Returns whether the text has this format; true if the format is unknown.
bool has_format(std::string_view format, std::string_view text);

// Returns whether the pattern matches a part of the text. `^` and `$` match only at the ends of
// the text, not at the ends of its lines.
bool has_pattern(const std::string& pattern, const std::string& text);

}  // namespace roll::spec
