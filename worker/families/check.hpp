// Checks a family file beyond its grammar, for `families check`.
#pragma once

#include "common/error.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// Fails with InvalidArgument; the message is the first of these problems. A condition or arithmetic
// uses a native field that neither "config" nor "constants" sets. A native field or tensor name
// looks like a misspelt name of the built-in families. Strands, tried with sample sizes, omit rows
// or use some twice.
Result<void> check_family(const Family& family);

}  // namespace roll::families
