// Checks the rows that the strands of a fused tensor use.
#pragma once

#include "common/error.hpp"
#include "worker/families/model.hpp"

namespace roll::families {

// Fails with InvalidArgument and the first row that no strand uses, or that two use. Requires
// positive sizes in `tensor`.
Result<void> check_strands(const NativeTensor& tensor);

}  // namespace roll::families
