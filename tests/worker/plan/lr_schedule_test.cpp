// Compares the rates with a table that was computed in Python by the formula of Megatron-LM's
// OptimizerParamScheduler.get_lr. The table has lr 1e-3 to 1e-4 and 4 warm-up steps of 12 decay
// steps; its num_steps is the number of earlier updates.
#include "worker/plan/lr_schedule.hpp"

#include <array>

#include <gtest/gtest.h>

namespace roll::plan {
namespace {

spec::OptimizerSpec with_warmup(spec::LrSchedule kind) {
    return {.lr = 1e-3, .min_lr = 1e-4, .warmup_steps = 4, .schedule = kind, .decays = {}};
}

TEST(LearningRate, CosineIsMegatronsAtEveryStep) {
    constexpr std::array kTable = {0.0,
                                   0.00025,
                                   0.0005,
                                   0.00075,
                                   0.001,
                                   0.000965745789630079,
                                   0.0008681980515339464,
                                   0.0007222075445642905,
                                   0.00055,
                                   0.0003777924554357096,
                                   0.00023180194846605365,
                                   0.00013425421036992097,
                                   0.0001,
                                   0.0001,
                                   0.0001};
    for (std::size_t step = 0; step < kTable.size(); ++step) {
        EXPECT_DOUBLE_EQ(learning_rate(with_warmup(spec::LrSchedule::Cosine), 12,
                                       static_cast<std::int64_t>(step)),
                         kTable[step])
            << step;
    }
}

TEST(LearningRate, ConstantStaysAfterItsWarmup) {
    const spec::OptimizerSpec spec = with_warmup(spec::LrSchedule::Constant);
    EXPECT_DOUBLE_EQ(learning_rate(spec, 12, 2), 5e-4);
    EXPECT_DOUBLE_EQ(learning_rate(spec, 12, 5), 1e-3);
    EXPECT_DOUBLE_EQ(learning_rate(spec, 12, 1000), 1e-3);
}

TEST(LearningRate, WithoutAWarmupTheFirstStepHasTheFullRate) {
    EXPECT_DOUBLE_EQ(learning_rate({.lr = 2e-3, .decays = {}}, 10, 0), 2e-3);
}

}  // namespace
}  // namespace roll::plan
