// The warning that `rollctl keys` and `rollctl doctor` print.
#pragma once

#include <string>

namespace roll::cli {

// Returns a warning for the owner of this rolld, who gives a key to `holder`. The warning says that
// the jobs of `holder` run as the owner, and what these jobs can read.
std::string trust_text(const std::string& holder);

}  // namespace roll::cli
