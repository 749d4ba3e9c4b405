// Computes the bytes of a target tensor.
#pragma once

#include "common/error.hpp"
#include "worker/convert/plan/rows.hpp"

namespace roll::convert {

// Passes the target tensor's bytes to `write` in order, window by window, then releases the
// source's mapped pages.
Result<void> gather(const Source& source, const TargetTensor& target, const Window& write);

}  // namespace roll::convert
