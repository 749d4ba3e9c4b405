// Measures the peak FLOP/s, the reference of MFU (model FLOP/s as a share of the peak).
#pragma once

#include <ATen/core/Tensor.h>

namespace roll::train {

// Returns the FLOP/s of a large matrix product of this type on this rank's threads or GPU: the best
// of a few runs. Takes about 0.1 s.
double measure_peak_flops(const at::TensorOptions& kind);

}  // namespace roll::train
