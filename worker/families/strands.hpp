// The rows that the strands of a fused tensor take.
#pragma once

#include "common/error.hpp"
#include "worker/families/model.hpp"

namespace roll::families {

// InvalidArgument names the first row of a source that no strand takes, or that two take. Requires
// positive sizes in `tensor`.
Result<void> check_strands(const NativeTensor& tensor);

}  // namespace roll::families
