// Parses JSON with a lower depth limit, for values that become part of a message.
#pragma once

#include <string_view>

#include "common/json.hpp"

namespace roll {

// Like parse_json(text), but allows at most `depth_max` levels instead of 100.
Result<Json> parse_json(std::string_view text, int depth_max);

}  // namespace roll
