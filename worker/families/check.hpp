// Checks a family file beyond its grammar, for `families check`.
#pragma once

#include "common/error.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// Fails with InvalidArgument and the first problem: a condition or arithmetic that uses a native
// field which neither "config" nor "constants" sets; a native field or tensor name that looks like
// a misspelt name of the built-in families; strands that omit rows or use some twice, tried with
// sample sizes.
Result<void> check_family(const Family& family);

}  // namespace roll::families
