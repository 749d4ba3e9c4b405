// Counter-based random numbers: the n-th number of a named sequence is a function of (seed, name,
// n). It does not depend on the layout, the order or the number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include <ATen/core/Tensor.h>

namespace roll::train {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Returns four random 32-bit words by Philox4x32-10 (Salmon et al., 2011).
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

// Sets element i of the contiguous tensor to std times the normal number with index `first` + i in
// the sequence. Computes in double, then rounds to the tensor's type (float or double).
void fill_normal(const at::Tensor& tensor, double std, std::uint64_t seed, std::string_view name,
                 std::int64_t first = 0);

// Like fill_normal(), but with uniform numbers in [-bound, bound).
void fill_uniform(const at::Tensor& tensor, double bound, std::uint64_t seed, std::string_view name,
                  std::int64_t first = 0);

// Returns the number with index `index` in the sequence, a uniform number in [0, 1) with 53 random
// bits.
double uniform(std::uint64_t seed, std::string_view name, std::uint64_t index);

}  // namespace roll::train
