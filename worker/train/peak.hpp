// What MFU is a share of.
#pragma once

#include <ATen/core/Tensor.h>

namespace roll::train {

// FLOP/s of a large matrix product of this type on this rank's threads or GPU: the best of a few,
// in about a tenth of a second.
double measure_peak_flops(const at::TensorOptions& kind);

}  // namespace roll::train
