// Checks that the strands (selections of rows) of a fused tensor use each row once.
#pragma once

#include "common/error.hpp"
#include "worker/families/model.hpp"

namespace roll::families {

// Checks the rows of all sources of `tensor`. Fails with InvalidArgument if no strand uses a row,
// or two do; the message names the first such row. Requires positive sizes in `tensor`.
Result<void> check_strands(const NativeTensor& tensor);

}  // namespace roll::families
