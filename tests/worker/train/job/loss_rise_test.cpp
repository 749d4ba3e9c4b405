// Tests where the rise of a loss begins, for typical loss curves.
#include "worker/train/job/loss_rise.hpp"

#include <cmath>
#include <random>

#include <gtest/gtest.h>

namespace roll::train {
namespace {

// Returns the step at which a rise is found to begin in a falling loss with noise, which rises in
// the last `rise` steps.
std::optional<std::int64_t> begin_of(int steps, int rise, double height, double noise = 0.05) {
    std::mt19937 random(3);
    std::normal_distribution<double> normal;
    LossHistory history;
    for (int step = 1; step <= steps; ++step) {
        const double calm = 2 + 8 * std::exp(-step / 40.0) + noise * normal(random);
        const bool high = step > steps - rise;
        history.add(step, calm + (high ? height : 0));
    }
    return history.rise();
}

TEST(LossRise, BeginsWithTheFirstHighStep) {
    EXPECT_EQ(begin_of(300, 7, 2), 294);
    EXPECT_EQ(begin_of(3000, 150, 1), 2851);
    EXPECT_EQ(begin_of(30, 1, 5), std::nullopt) << "a steep fall is wide noise";
    EXPECT_EQ(begin_of(300, 1, 2), 300);
}

TEST(LossRise, NoiseAndTheFirstStepsAreNone) {
    for (const int steps : {1, 5, 15, 40, 200, 2000})
        EXPECT_EQ(begin_of(steps, 0, 0), std::nullopt);
    EXPECT_EQ(begin_of(15, 3, 100), std::nullopt);
    EXPECT_EQ(begin_of(300, 3, 0.2), std::nullopt);
}

TEST(LossRise, ANewLevelIsCalm) { EXPECT_EQ(begin_of(900, 400, 3), std::nullopt); }

TEST(LossRise, AResumedRunForgetsTheStepsThatItGoesBackBehind) {
    LossHistory history;
    for (int step = 1; step <= 60; ++step) history.add(step, step < 50 ? 2 : 9);
    EXPECT_EQ(history.rise(), 50);
    history.add(50, 2);
    EXPECT_EQ(history.rise(), std::nullopt);
    history.add(51, 9);
    EXPECT_EQ(history.rise(), 51);
}

}  // namespace
}  // namespace roll::train
