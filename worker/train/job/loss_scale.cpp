#include "worker/train/job/loss_scale.hpp"

#include <algorithm>
#include <cstdio>

namespace roll::train {
namespace {

constexpr double kScaleGrowth = 2;
// the scale does not grow beyond this value, so that it cannot overflow float32
constexpr double kLargestScale = 1e30;
// maximum number of consecutive overflows at the lowest scale
constexpr int kOverflowsMax = 10;

}  // namespace

std::optional<checkpoint::LossScale> first_loss_scale(const spec::TrainSpec& spec) {
    if (spec.precision != spec::Precision::Fp16) return std::nullopt;
    return checkpoint::LossScale{.scale = spec.loss_scale.initial,
                                 .tolerated = spec.loss_scale.hysteresis - 1};
}

std::int64_t scheduled_steps(const checkpoint::State& state) {
    return state.step - (state.loss_scale ? state.loss_scale->overflows : 0);
}

void note_step(checkpoint::LossScale& scale, const spec::LossScaleSpec& spec, bool overflowed) {
    if (overflowed) {
        ++scale.overflows;
        scale.at_least = scale.scale <= spec.min ? scale.at_least + 1 : 0;
        scale.good_steps = 0;
        if (scale.tolerated > 0)
            --scale.tolerated;
        else
            scale.scale = std::max(scale.scale * spec.backoff, spec.min);
        return;
    }
    scale.at_least = 0;
    if (++scale.good_steps < spec.growth_interval) return;
    scale.good_steps = 0;
    scale.tolerated = spec.hysteresis - 1;
    scale.scale = std::min(scale.scale * kScaleGrowth, kLargestScale);
}

std::optional<std::string> too_many_overflows(const checkpoint::LossScale& scale,
                                              const spec::LossScaleSpec& spec) {
    if (scale.at_least <= kOverflowsMax) return std::nullopt;
    char least[32];
    std::snprintf(least, sizeof least, "%g", spec.min);
    return "the gradient overflowed float16 in " + std::to_string(scale.at_least) +
           " consecutive steps, although the loss scale was at train.loss_scale.min " + least +
           "; train with precision bf16 or fp32, with a lower learning rate, or with a lower "
           "loss_scale.min";
}

}  // namespace roll::train
