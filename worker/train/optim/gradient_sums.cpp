#include "worker/train/optim/gradient_sums.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include <ATen/ATen.h>

#include "worker/train/ops/kernel.hpp"

namespace roll::train {
namespace {

// Returns the sum of squares. Keeps one partial sum per vector lane, so that the compiler can
// vectorize the loop.
template <class T>
double sum_squares(const T* values, std::int64_t size) {
    constexpr std::int64_t kLanes = 16;
    std::array<double, kLanes> lanes{};
    std::int64_t i = 0;
    for (; i + kLanes <= size; i += kLanes) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
            const auto value = static_cast<double>(values[i + lane]);
            lanes[lane] += value * value;
        }
    }
    double sum = std::accumulate(lanes.begin(), lanes.end(), 0.0);
    for (; i < size; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    return sum;
}

}  // namespace

at::Tensor square_sum(const at::Tensor& values) {
    if (!values.is_cpu()) {
        const at::Tensor norm =
            at::linalg_vector_norm(values, 2, at::OptionalIntArrayRef{}, false, at::kDouble);
        return norm.square().cpu();
    }
    // Number of elements of one partial sum. This number is fixed, so that the result does not
    // depend on the number of threads.
    constexpr std::int64_t kBlock = 1 << 16;
    const std::int64_t size = values.numel(), blocks = (size + kBlock - 1) / kBlock;
    const at::Tensor sums = at::empty({blocks}, at::kDouble);
    ops::for_float_types(values, [&]<class T>(T) {
        const T* grad = values.const_data_ptr<T>();
        double* sum = sums.data_ptr<double>();
        ops::for_rows(blocks, 1, [&](std::int64_t first, std::int64_t count) {
            for (std::int64_t block = first; block < first + count; ++block) {
                const std::int64_t begin = block * kBlock;
                sum[block] = sum_squares(grad + begin, std::min(kBlock, size - begin));
            }
        });
    });
    return sums.sum();
}

at::Tensor zero_count(const at::Tensor& values) {
    return (values.numel() - values.count_nonzero()).cpu();
}

}  // namespace roll::train
