// Parses the options --since and --until of `jobs`, `logs`, `report` and other commands.
#pragma once

#include <string_view>

#include "common/error.hpp"
#include "common/time.hpp"

namespace roll::cli {

// Parses a duration that ends at `now`, such as "2h", or a time such as "2026-11-22T08:00:00Z".
// Fails with InvalidArgument if `text` is neither. `option` is the option that the message names.
Result<Time> parse_since(std::string_view text, Time now, const char* option = "--since");

}  // namespace roll::cli
