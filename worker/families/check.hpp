// What is wrong with a family file beyond its grammar, for `families check`.
#pragma once

#include "common/error.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// InvalidArgument names the first of: a condition or arithmetic that uses a native field which
// neither "config" nor "constants" sets; a native field or tensor whose name is nearly one of the
// built-in families' (a misspelling); strands that leave out rows or take some twice, tried with
// sample sizes.
Result<void> check_family(const Family& family);

}  // namespace roll::families
