// Measures a rank's peak FLOP/s. MFU is the model's FLOP/s divided by this peak.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace roll::train {

// Multiplies large matrices with the type and device of `kind`, on this rank's threads or GPU.
// Returns the FLOP/s of the fastest of a few runs. Takes about 0.1 s.
double measure_peak_flops(const at::TensorOptions& kind);

// Returns the FLOP/s of the fastest product of square matrices. `seconds_of` multiplies matrices of
// a size and returns the time that this took. The sizes are tried in turn, until the products took
// 0.1 s together. The first product does not count, because it starts threads and loads kernels. At
// least three products count, because another program may delay one of them.
double fastest_product(const std::vector<std::int64_t>& sizes,
                       const std::function<double(std::int64_t)>& seconds_of);

}  // namespace roll::train
