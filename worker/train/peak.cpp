#include "worker/train/peak.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/ATen.h>

#include "worker/train/ops/linear.hpp"

namespace roll::train {

double measure_peak_flops(const at::TensorOptions& kind) {
    using Clock = std::chrono::steady_clock;
    const std::int64_t size = kind.device().is_cpu() ? 768 : 8192;  // larger ones are no faster
    constexpr auto kEnough = std::chrono::milliseconds(100);
    const c10::InferenceMode no_autograd;
    const at::Tensor a = at::ones({size, size}, kind), b = at::ones_like(a);
    const at::Tensor out = at::empty_like(a);
    const auto begin = Clock::now();
    double best = 0;
    do {
        const auto start = Clock::now();
        ops::matmul(out, a, b.t(), 0);
        out[0][0].item<double>();  // a GPU has to be waited for
        const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
        best = std::max(best, 2.0 * std::pow(static_cast<double>(size), 3) / seconds);
    } while (Clock::now() - begin < kEnough);
    return best;
}

}  // namespace roll::train
