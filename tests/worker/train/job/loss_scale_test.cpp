// Compares the loss scale with megatron-core's DynamicGradScaler, step by step.
#include "worker/train/job/loss_scale.hpp"

#include <gtest/gtest.h>

namespace roll::train {
namespace {

std::optional<checkpoint::LossScale> first(spec::Precision precision,
                                           const spec::LossScaleSpec& options = {}) {
    spec::TrainSpec spec;
    spec.precision = precision;
    spec.loss_scale = options;
    return first_loss_scale(spec);
}

// Returns the scale after each step. `steps` has a letter for each step: '-' or 'o' (overflow).
std::vector<double> scales(const spec::LossScaleSpec& options, const std::string& steps) {
    auto scale = first(spec::Precision::Fp16, options);
    std::vector<double> all;
    for (const char step : steps) {
        note_step(*scale, options, step == 'o');
        all.push_back(scale->scale);
    }
    return all;
}

// The expected values were computed with megatron.core.optimizer.grad_scaler.DynamicGradScaler
// (megatron-core 0.16.1) on a CPU.
TEST(LossScale, FollowsMegatron) {
    EXPECT_EQ(
        scales({.initial = 64, .growth_interval = 3, .hysteresis = 1}, "---o--o---------"),
        (std::vector<double>{64, 64, 128, 64, 64, 64, 32, 32, 32, 64, 64, 64, 128, 128, 128, 256}));
    // The second of two overflows lowers the scale, and so do all later ones until it grows.
    EXPECT_EQ(scales({.initial = 64, .growth_interval = 3, .hysteresis = 2}, "o-oo--o---o-o"),
              (std::vector<double>{64, 64, 32, 16, 16, 16, 8, 8, 8, 16, 16, 16, 8}));
    EXPECT_EQ(
        scales({.initial = 8, .growth_interval = 1, .backoff = 0.25, .hysteresis = 1, .min = 3},
               "ooo-oo"),
        (std::vector<double>{3, 3, 3, 6, 3, 3}));
}

TEST(LossScale, OtherPrecisionsHaveNone) { EXPECT_EQ(first(spec::Precision::Bf16), std::nullopt); }

TEST(LossScale, StopsOnlyIfTheLeastScaleOverflowsAgainAndAgain) {
    const spec::LossScaleSpec options{.initial = 1 << 20, .hysteresis = 1, .min = 4};
    auto scale = first(spec::Precision::Fp16, options);
    for (int step = 0; step < 18 + 10; ++step) {
        note_step(*scale, options, true);
        EXPECT_EQ(too_many_overflows(*scale, options), std::nullopt) << step;
    }
    note_step(*scale, options, true);
    EXPECT_EQ(scale->overflows, 29);
    EXPECT_EQ(too_many_overflows(*scale, options),
              "the gradient overflowed float16 in 11 consecutive steps, although the loss scale "
              "was at train.loss_scale.min 4; train with precision bf16 or fp32, with a lower "
              "learning rate, or with a lower loss_scale.min");
    note_step(*scale, options, false);
    EXPECT_EQ(too_many_overflows(*scale, options), std::nullopt);
}

}  // namespace
}  // namespace roll::train
