// Matches texts with the patterns of a schema.
#pragma once

#include <string>

namespace roll::spec {

// Returns whether the pattern matches a part of the text. `^` and `$` match only at the ends of
// the text, not at the ends of its lines.
bool has_pattern(const std::string& pattern, const std::string& text);

}  // namespace roll::spec
