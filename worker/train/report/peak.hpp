// Measures a rank's peak FLOP/s. MFU is the model's FLOP/s divided by this peak.
#pragma once

#include <ATen/core/Tensor.h>

namespace roll::train {

// Multiplies large matrices with the type and device of `kind`, on this rank's threads or GPU.
// Returns the FLOP/s of the fastest of a few runs. Takes about 0.1 s.
double measure_peak_flops(const at::TensorOptions& kind);

}  // namespace roll::train
