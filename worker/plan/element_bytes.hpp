// The bytes per element of a job's precision. Pure.
#pragma once

#include <cstdint>

#include "common/spec/train/train.hpp"

namespace roll::plan {

// Returns the bytes per element of the weights and activations in forward and backward.
std::int64_t element_bytes(spec::Precision precision);

// Returns the bytes per element of the main weights, which the optimizer updates.
std::int64_t main_bytes(spec::Precision precision);

// Returns the bytes per element that the main weights need in addition to the weights. On a CPU, a
// bf16 weight is one half of its fp32 main weight, so only the other half takes additional memory.
std::int64_t copy_bytes(spec::Precision precision, bool on_gpu);

// If the optimizer state is offloaded to a file, an update on a CPU holds at most this many bytes
// of each kind of state in memory at once.
inline constexpr std::int64_t kOffloadWindow = 8 << 20;

}  // namespace roll::plan
