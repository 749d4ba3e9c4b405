// Checks that the strands of a fused tensor use each row once.
#pragma once

#include "common/error.hpp"
#include "worker/families/model.hpp"

namespace roll::families {

// Fails with InvalidArgument if no strand uses a row, or two do; the message names the first such
// row. Requires positive sizes in `tensor`.
Result<void> check_strands(const NativeTensor& tensor);

}  // namespace roll::families
