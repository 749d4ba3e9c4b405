#include "worker/train/report/peak.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <ATen/ATen.h>

#include "worker/train/ops/linear.hpp"

namespace roll::train {

double fastest_product(const std::vector<std::int64_t>& sizes,
                       const std::function<double(std::int64_t)>& seconds_of) {
    constexpr double kEnough = 0.1;
    constexpr std::size_t kFewest = 3;
    seconds_of(sizes.front());
    double best = 0, together = 0;
    for (std::size_t i = 0; i < kFewest || together < kEnough; ++i) {
        const std::int64_t size = sizes[i % sizes.size()];
        // at least the resolution of the clock
        const double seconds = std::max(seconds_of(size), 1e-9);
        best = std::max(best, 2.0 * std::pow(static_cast<double>(size), 3) / seconds);
        together += seconds;
    }
    return best;
}

double measure_peak_flops(const at::TensorOptions& kind) {
    using Clock = std::chrono::steady_clock;
    // Try several sizes, because the fastest size depends on caches and threads. Larger sizes would
    // raise the process's peak memory. The small sizes are for slow (emulated) processors, on which
    // larger products would take minutes.
    std::vector<std::int64_t> sizes = kind.device().is_cpu()
                                          ? std::vector<std::int64_t>{96, 192, 384, 512, 768}
                                          : std::vector<std::int64_t>{8192};
    if (kind.device().is_cpu() && kind.dtype().itemsize() > 4) sizes.pop_back();
    const c10::InferenceMode no_autograd;
    const at::Tensor a = at::ones({sizes.back(), sizes.back()}, kind), b = at::ones_like(a);
    return fastest_product(sizes, [&](std::int64_t size) {
        const auto corner = [&](const at::Tensor& whole) {
            return whole.flatten().narrow(0, 0, size * size).view({size, size});
        };
        const at::Tensor out = at::empty({size, size}, kind);
        const auto start = Clock::now();
        ops::matmul(out, corner(a), corner(b).t(), 0);
        out[0][0].item<double>();  // wait until the GPU has computed the product
        return std::chrono::duration<double>(Clock::now() - start).count();
    });
}

}  // namespace roll::train
