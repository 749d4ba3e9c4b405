// Tests label smoothing, z-loss, NEFTune's noise and distillation: an evaluation has none of them,
// and the noise is uniform, of its size, and the same for the same sequence. grid_test.cpp trains
// with all of them in every layout.
#include <cmath>

#include <ATen/ATen.h>

#include "tests/worker/train/pipeline/world.hpp"

namespace roll::train {
namespace {

constexpr spec::TokenLossSpec kAllRules{.label_smoothing = 0.1, .z_loss = 0.02, .neftune_alpha = 5};

Named train_with(const spec::TokenLossSpec& loss) {
    return train(World{.config = tiny_model(false),
                       .schedule = plan::gpipe(1, 1, kMicrobatches),
                       .steps = 2,
                       .loss = loss});
}

TEST(TokenLoss, EachOptionChangesTheLossOfTrainingButNotThatOfAnEvaluation) {
    const spec::ModelConfig config = tiny_model(false);
    const auto loss = [](const spec::TokenLossSpec& spec) {
        return train_with(spec).at("0.loss").item<double>();
    };
    const double plain = loss({});
    EXPECT_GT(std::abs(loss({.label_smoothing = 0.1}) - plain), 1e-4);
    EXPECT_GT(loss({.z_loss = 0.02}) - plain, 0.1);
    EXPECT_GT(std::abs(loss({.neftune_alpha = 5}) - plain), 1e-5);
    EXPECT_GT(std::abs(loss({.teacher_weight = 0.5}) - plain), 1e-2);
    Chunk chunk(config, whole_chunk(config), {.dtype = at::kDouble});
    const Microbatch data = tiny_batch(0, 1)[0];
    const LossRule rule{.scale = 1, .tokens = kAllRules, .seed = 7};
    const at::Tensor before = chunk.evaluate(data, {});
    chunk.forward(0, data, {}, rule, [](int) {});
    EXPECT_TRUE(chunk.evaluate(data, {}).equal(before));
}

TEST(TokenLoss, AnEvaluationReportsTheDivergenceAtTheTemperature) {
    const Named seen = train_with({.teacher_weight = 1, .temperature = 3});
    // With the weight 1, the loss of a step is 3^2 times the divergence.
    for (const std::string step : {"0.", "1."})
        EXPECT_NEAR(seen.at(step + "loss").item<double>(),
                    9 * seen.at(step + "divergence").item<double>(), 1e-12);
    EXPECT_GT(seen.at("valid.divergence").item<double>(), 0);
}

// Returns what the first stage adds to the output of the embedding.
at::Tensor noise_of(std::int64_t first_sequence, double alpha) {
    const spec::ModelConfig config = tiny_model(false);
    Chunk chunk(config, ChunkSpec{.layer_begin = 0, .layer_end = 0, .post = false},
                {.dtype = at::kDouble});
    Microbatch data = tiny_batch(0, 1)[0];
    data.first_row = first_sequence * data.tokens_BT.size(1);
    const at::Tensor plain = chunk.forward(0, data, {}, {}, [](int) {});
    return chunk.forward(1, data, {}, {.tokens = {.neftune_alpha = alpha}, .seed = 3}, [](int) {}) -
           plain;
}

TEST(TokenLoss, TheNoiseIsUniformAndBelongsToTheSequence) {
    constexpr double kAlpha = 5;
    constexpr std::int64_t kPositions = 11;
    const at::Tensor noise = noise_of(4, kAlpha);
    const double bound = kAlpha / std::sqrt(kPositions * 24.0);
    EXPECT_LE(noise.abs().max().item<double>(), bound + 1e-12);
    EXPECT_GT(noise.abs().max().item<double>(), 0.98 * bound);
    EXPECT_NEAR(noise.mean().item<double>(), 0, 0.1 * bound);
    EXPECT_NEAR(noise.square().mean().item<double>(), bound * bound / 3, 0.05 * bound * bound);
    // the second sequence of a micro-batch is the first one of another
    expect_close(noise_of(5, kAlpha).narrow(0, 0, kPositions),
                 noise.narrow(0, kPositions, kPositions), "noise");
    EXPECT_GT((noise.narrow(0, 0, kPositions) - noise.narrow(0, kPositions, kPositions))
                  .abs()
                  .max()
                  .item<double>(),
              bound);
}

}  // namespace
}  // namespace roll::train
