#include "worker/train/report/peak.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <vector>

#include <ATen/ATen.h>

#include "worker/train/ops/linear.hpp"

namespace roll::train {

double measure_peak_flops(const at::TensorOptions& kind) {
    using Clock = std::chrono::steady_clock;
    // Try several sizes, because the fastest size depends on caches and threads. Larger sizes would
    // raise the process's peak memory. The small sizes keep the measurement on a slow (emulated)
    // processor from taking minutes.
    const std::vector<std::int64_t> sizes = kind.device().is_cpu()
                                                ? std::vector<std::int64_t>{96, 192, 384, 512, 768}
                                                : std::vector<std::int64_t>{8192};
    constexpr auto kEnough = std::chrono::milliseconds(100);
    const c10::InferenceMode no_autograd;
    const at::Tensor a = at::ones({sizes.back(), sizes.back()}, kind), b = at::ones_like(a);
    const auto begin = Clock::now();
    double best = 0;
    do {
        for (const std::int64_t size : sizes) {
            const auto corner = [&](const at::Tensor& whole) {
                return whole.flatten().narrow(0, 0, size * size).view({size, size});
            };
            const at::Tensor out = at::empty({size, size}, kind);
            const auto start = Clock::now();
            ops::matmul(out, corner(a), corner(b).t(), 0);
            out[0][0].item<double>();  // wait until the GPU has computed the product
            const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
            best = std::max(best, 2.0 * std::pow(static_cast<double>(size), 3) / seconds);
            if (Clock::now() - begin >= kEnough) break;
        }
    } while (Clock::now() - begin < kEnough);
    return best;
}

}  // namespace roll::train
