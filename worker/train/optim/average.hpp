// The exponential moving average of a parameter's main weights, as in
// torch.optim.swa_utils.get_ema_multi_avg_fn. `average` has the rows of parameter `i`
// that this rank owns (parameters.hpp).
#pragma once

#include <cstddef>

#include <ATen/core/Tensor.h>

#include "worker/train/model/parameters.hpp"

namespace roll::train {

// Copies the weights to the average.
void start_average(const Parameters& parameters, std::size_t i, const at::Tensor& average);

// Sets the average to decay * average + (1 - decay) * weights.
void update_average(const Parameters& parameters, std::size_t i, const at::Tensor& average,
                    double decay);

// Exchanges the main weights and the average. If the main weights are a tensor of their own, the
// weights with which the model computes do not change.
void swap_average(const Parameters& parameters, std::size_t i, const at::Tensor& average);

}  // namespace roll::train
