// Tests which steps are spikes, what the guard keeps in the training state, and how it handles a
// step that gives two results. The ranks of this test are one rank.
#include "worker/train/job/step_guard.hpp"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "tests/worker/train/tiny_model.hpp"
#include "worker/train/comm/local_communicator.hpp"

namespace roll::train {
namespace {

struct Guarded {
    explicit Guarded(spec::OnBadStep policy) {
        at::set_num_threads(1);
        spec.global_batch_size = 8;
        spec.bad_steps = {.on_spike = policy, .window = 20};
    }
    // Handles an invented step as if it had run with the guard's limits. Nullopt: training goes on.
    std::optional<RankFailure> see(double loss, double grad_norm) {
        const StepLimits limits = guard.limits();
        StepResult result{.loss = loss, .grad_norm = grad_norm, .tokens = 9};
        if (std::isfinite(loss) && std::isfinite(grad_norm)) {
            if (loss > limits.loss)
                result.too_high = TooHigh::Loss;
            else if (grad_norm > limits.grad_norm)
                result.too_high = TooHigh::GradNorm;
            result.updated = result.too_high == TooHigh::None;
        }
        return check(result);
    }
    std::optional<RankFailure> check(const StepResult& result) {
        const auto failure =
            guard.check(step, batch, result, {spec, state.step, state.samples}, self);
        ++state.step;
        state.samples += spec.global_batch_size;
        return failure;
    }
    // Runs the step for real, so that a repetition gives the same result.
    StepResult run() { return step.run(batch, 0, 1, false, guard.limits()); }
    void calm(int steps) {
        for (int i = 0; i < steps; ++i) EXPECT_FALSE(see(2 + 0.01 * (i % 3), 1 + 0.01 * (i % 3)));
    }

    LocalGroup alone{1};
    LocalCommunicator self{alone, 0};
    plan::PipelineSchedule schedule = plan::one_forward_one_backward(1, 2);
    std::function<void(spec::FaultPhase)> at_phase;
    TrainStep step{tiny_model(false),
                   schedule,
                   {.pp = self,
                    .dp = self,
                    .at_phase =
                        [this](spec::FaultPhase phase) {
                            if (at_phase) at_phase(phase);
                        }},
                   {.init = {.dtype = at::kDouble}}};
    std::vector<Microbatch> batch = tiny_batch(1, 2);
    spec::TrainSpec spec;
    protocol::Launch launch;
    checkpoint::State state;
    StepGuard guard{spec, launch, state};
};

TEST(StepGuard, IgnoresSpikesAndKeepsNothingByDefault) {
    Guarded one(spec::OnBadStep::Ignore);
    one.state.recent.emplace();  // of a checkpoint whose job had another policy
    one.calm(40);
    EXPECT_EQ(one.guard.limits().loss, std::numeric_limits<double>::infinity());
    EXPECT_FALSE(one.see(1e9, 1e9));
    EXPECT_FALSE(one.state.recent);
}

TEST(StepGuard, KeepsTheLatestAppliedSteps) {
    Guarded one(spec::OnBadStep::Skip);
    one.calm(15);
    EXPECT_EQ(one.guard.limits().loss, std::numeric_limits<double>::infinity());
    one.calm(1);
    EXPECT_NEAR(one.guard.limits().loss, 2.11, 0.03);
    EXPECT_NEAR(one.guard.limits().grad_norm, 1.1, 0.03);
    one.calm(30);
    EXPECT_EQ(one.state.recent->losses.size(), 20);
    EXPECT_EQ(one.state.recent->grad_norms.size(), 20);
    // A guard with the state of a checkpoint decides alike.
    Guarded other(spec::OnBadStep::Skip);
    other.state = checkpoint::decode_state(encode(one.state)).value();
    EXPECT_EQ(other.guard.limits().loss, one.guard.limits().loss);
    EXPECT_EQ(other.guard.limits().grad_norm, one.guard.limits().grad_norm);
}

TEST(StepGuard, ASmallerBatchIsNotComparedWithLargerOnes) {
    Guarded one(spec::OnBadStep::Skip);
    one.calm(20);
    one.spec.global_batch_size = 16;
    EXPECT_LT(one.guard.limits().loss, 3);
    one.spec.global_batch_size = 8;
    EXPECT_EQ(one.guard.limits().loss, std::numeric_limits<double>::infinity());
}

TEST(StepGuard, AnOverflowOfFloat16IsNoSpikeAndNotComputedAgain) {
    Guarded one(spec::OnBadStep::Stop);
    one.calm(20);
    one.state.loss_scale = checkpoint::LossScale{.scale = 1024};
    const auto before = one.state.recent;
    // A repetition would give another result than this invented one, and end the attempt.
    EXPECT_FALSE(one.see(2, INFINITY));
    EXPECT_EQ(one.state.recent, before);
    EXPECT_TRUE(one.see(NAN, NAN));
}

// Runs a real step, whose loss is far above invented earlier losses.
StepResult high_step(Guarded& one) {
    one.calm(20);
    const StepResult result = one.run();
    EXPECT_EQ(result.too_high, TooHigh::Loss);
    return result;
}

TEST(StepGuard, SkipsTenSpikesInARowAndCountsThemInTheState) {
    Guarded one(spec::OnBadStep::Skip);
    const StepResult result = high_step(one);
    for (int i = 1; i <= 10; ++i) {
        EXPECT_FALSE(one.check(result)) << i;
        EXPECT_EQ(one.state.recent->skipped, i);
    }
    const auto failure = one.check(result);
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->status(), protocol::kExitDiverged);
    EXPECT_TRUE(std::string(failure->what())
                    .ends_with("(samples 240 to 247); the 10 steps before it were skipped, and no "
                               "more may be skipped in a row"))
        << failure->what();
}

TEST(StepGuard, AnAppliedStepEndsTheRowOfSkippedOnes) {
    Guarded one(spec::OnBadStep::Skip);
    const StepResult result = high_step(one);
    for (int i = 0; i < 30; ++i) {
        EXPECT_FALSE(one.check(result)) << i;
        if (i % 10 == 9) one.calm(1);
    }
}

TEST(StepGuard, StopNamesStepValueLimitMedianAndTheSamplesThatAreTrainedOn) {
    Guarded one(spec::OnBadStep::Stop);
    one.state.left_out = {161, 162};
    const auto failure = one.check(high_step(one));
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->status(), protocol::kExitDiverged);
    EXPECT_EQ(std::string(failure->what()).substr(0, 34), "the loss of step 21 is a spike: 3.");
    EXPECT_NE(
        std::string(failure->what())
            .find(" is above the limit 2.1105; the median of the last 20 applied steps is 2.01 "
                  "(samples 160 and 163 to 167)"),
        std::string::npos)
        << failure->what();
}

// The first result of the step is wrong; a glitch in the gradient makes it so.
TEST(StepGuard, AStepWithTwoResultsEndsTheAttemptWhateverThePolicy) {
    for (const double wrong : {1e4, double{INFINITY}}) {
        Guarded one(spec::OnBadStep::Skip);
        for (int i = 0; i < 20; ++i) EXPECT_FALSE(one.check(one.run()));
        one.at_phase = [&](spec::FaultPhase phase) {
            if (phase == spec::FaultPhase::Reduce)
                one.step.chunks()[0].parameters().grad.back().view(-1)[0] = wrong;
        };
        const StepResult result = one.run();
        EXPECT_FALSE(result.updated);
        const auto failure = one.check(result);
        ASSERT_TRUE(failure);
        EXPECT_EQ(failure->status(), 1);
        const std::string text = failure->what();
        EXPECT_TRUE(
            text.starts_with("computing step 21 twice from the same weights and samples "
                             "gave two results: loss 3."))
            << text;
        EXPECT_NE(
            text.find(wrong > 1e5 ? "gradient norm inf, then " : "gradient norm 10000.0001, then "),
            std::string::npos)
            << text;
        EXPECT_TRUE(text.ends_with("; memory or a processor may be damaged")) << text;
        // Without the glitch, the same step goes on.
        one.at_phase = {};
        EXPECT_FALSE(one.check(one.run()));
    }
}

}  // namespace
}  // namespace roll::train
