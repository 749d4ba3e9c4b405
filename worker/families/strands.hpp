// Checks that the strands (selections of rows) of a fused tensor use each row once.
#pragma once

#include "common/error.hpp"
#include "worker/families/native_tensor.hpp"

namespace roll::families {

// Checks that exactly one strand of `tensor` uses each row of its sources. If not, fails with
// InvalidArgument; the message names the first row that no strand uses or that several strands use.
// Requires that the sizes in `tensor` are positive.
Result<void> check_strands(const NativeTensor& tensor);

}  // namespace roll::families
