// Refuses job files that are too large. Measures the sizes of their lines, without parsing them.
#pragma once

#include <string>
#include <string_view>

#include "common/error.hpp"

namespace roll::cli {

// Fails with InvalidArgument if a document is so large that parsing it would take seconds. `text`
// is the content of the job file `file`. The message names the largest value and its line.
Result<void> check_sizes(std::string_view text, const std::string& file);

}  // namespace roll::cli
