#include "worker/train/peak.hpp"

#include <algorithm>
#include <chrono>

#include <ATen/ATen.h>

#include "worker/train/ops/linear.hpp"

namespace roll::train {

double measure_peak_flops(at::ScalarType dtype) {
    using Clock = std::chrono::steady_clock;
    constexpr std::int64_t kSize = 768;  // larger ones are no faster
    constexpr auto kEnough = std::chrono::milliseconds(100);
    const c10::InferenceMode no_autograd;
    const at::Tensor a = at::ones({kSize, kSize}, dtype), b = at::ones_like(a);
    const at::Tensor out = at::empty_like(a);
    const auto begin = Clock::now();
    double best = 0;
    do {
        const auto start = Clock::now();
        ops::matmul(out, a, b.t(), 0);
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        best = std::max(best, 2.0 * kSize * kSize * kSize / seconds);
    } while (Clock::now() - begin < kEnough);
    return best;
}

}  // namespace roll::train
