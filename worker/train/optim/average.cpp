#include "worker/train/optim/average.hpp"

#include <utility>

#include "worker/train/optim/update.hpp"

namespace roll::train {

void start_average(const Parameters& p, std::size_t i, const at::Tensor& average) {
    if (!average.is_cpu()) return static_cast<void>(average.copy_(p.main[i]));
    const at::Tensor flat = average.flatten();
    for_windows({&flat, 1}, flat.numel(), [&](std::int64_t begin, std::int64_t count) {
        copy_main(p, i, flat.narrow(0, begin, count), begin);
    });
}

void update_average(const Parameters& p, std::size_t i, const at::Tensor& average, double decay) {
    if (!average.is_cpu()) return static_cast<void>(average.lerp_(p.main[i], 1 - decay));
    for_slices(p, i, average, {average}, [&]<class W>(const Slice<W>& slice) {
        const auto share = static_cast<W>(1 - decay);
        W* const mean = slice.state[0];
        for (std::int64_t k = 0; k < slice.size; ++k)
            mean[k] += share * (slice.weight[k] - mean[k]);
    });
}

void swap_average(const Parameters& p, std::size_t i, const at::Tensor& average) {
    if (!average.is_cpu()) {
        const at::Tensor weight = p.main[i].clone();
        at::Tensor main = p.main[i];
        main.copy_(average);
        average.copy_(weight);
        return;
    }
    for_slices(p, i, average, {average}, []<class W>(const Slice<W>& slice) {
        for (std::int64_t k = 0; k < slice.size; ++k) std::swap(slice.weight[k], slice.state[0][k]);
    });
}

}  // namespace roll::train
