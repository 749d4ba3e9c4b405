// Checks a family file for mistakes that its grammar allows. The command `families check` uses it.
#pragma once

#include "common/error.hpp"
#include "worker/families/family.hpp"

namespace roll::families {

// Checks a family for mistakes that its grammar allows. Fails with InvalidArgument; the message
// names the first mistake. There are three kinds of mistakes:
// - a condition or arithmetic expression uses a native (Megatron) field that neither "config" nor
//   "constants" sets
// - a native field or tensor name looks like a misspelt name of the built-in families
// - the strands (row ranges) of a fused tensor omit rows or use some rows twice; sample sizes are
//   used for this check
Result<void> check_family(const Family& family);

}  // namespace roll::families
