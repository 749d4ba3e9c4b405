// JSON that may nest less deep than a message: what becomes a part of another.
#pragma once

#include <string_view>

#include "common/json.hpp"

namespace roll {

// As parse_json(), which lets it nest 100 levels deep.
Result<Json> parse_json(std::string_view text, int depth_max);

}  // namespace roll
