// Tests label smoothing, z-loss, NEFTune's noise and distillation: every layout trains as one rank
// does, in float64 to 1e-12 as layout_test.cpp does, and the noise is uniform, of its size, and the
// same for the same sequence.
#include <cmath>

#include <ATen/ATen.h>

#include "common/spec/train/read_lora.hpp"
#include "tests/worker/train/pipeline/cells.hpp"

namespace roll::train {
namespace {

constexpr spec::TokenLossSpec kAll{.label_smoothing = 0.1, .z_loss = 0.02, .neftune_alpha = 5};

// The loss with a teacher, of whose probabilities 5 are known
constexpr spec::TokenLossSpec kTaught{
    .label_smoothing = 0.1, .teacher_weight = 0.7, .temperature = 2};

Named train_with(const spec::ModelConfig& config, const plan::PipelineSchedule& schedule,
                 const spec::TokenLossSpec& loss, const Cell& cell = {}, bool packs = false) {
    static std::uint64_t seed = 2000;
    return train(World{.config = config,
                       .schedule = schedule,
                       .dp = cell.dp,
                       .tp = cell.tp,
                       .fabric = {.seed = ++seed},
                       .steps = 2,
                       .sequence = cell.sequence,
                       .zero = cell.zero,
                       .clip = config.lora.is_set() ? 0 : kClip,
                       .data = packs ? Data::Packed : Data::Plain,
                       .loss = loss});
}

TEST(TokenLoss, EveryLayoutTrainsAsOneRankDoes) {
    const int m = kMicrobatches;
    for (const auto& [loss, adapts] :
         {std::pair(kAll, false), std::pair(kTaught, false), std::pair(kTaught, true)}) {
        spec::ModelConfig config = split_model(/*tied=*/true);
        if (adapts) config.lora = spec::lora_spec({{"r", 3}, {"alpha", 12}});
        const auto run = [&](const plan::PipelineSchedule& schedule, const Cell& cell) {
            return train_with(config, schedule, loss, cell, adapts);
        };
        const Named reference = run(plan::gpipe(1, 1, m), {});
        const double errors[] = {
            worst(run(plan::one_forward_one_backward(1, m / 2), {.dp = 2}), reference),
            worst(run(plan::interleaved(2, 2, m / 2), {.dp = 2, .zero = 2}), reference),
            worst(run(plan::gpipe(1, 1, m / 2), {.dp = 2, .zero = 3}), reference),
            worst(run(plan::gpipe(1, 1, m), {.tp = 4}), reference),
            worst(run(plan::zero_bubble_h1(2, m), {.tp = 2, .sequence = true}), reference)};
        std::printf("%s%s: worst %.1e\n", loss.has_teacher() ? "teacher" : "terms",
                    adapts ? ", LoRA" : "", *std::ranges::max_element(errors));
    }
}

TEST(TokenLoss, EachOptionChangesTheLossOfTrainingButNotThatOfAnEvaluation) {
    const spec::ModelConfig config = tiny_model(false);
    const plan::PipelineSchedule schedule = plan::gpipe(1, 1, kMicrobatches);
    const auto loss = [&](const spec::TokenLossSpec& spec) {
        return train_with(config, schedule, spec).at("0.loss").item<double>();
    };
    const double plain = loss({});
    EXPECT_GT(std::abs(loss({.label_smoothing = 0.1}) - plain), 1e-4);
    EXPECT_GT(loss({.z_loss = 0.02}) - plain, 0.1);
    EXPECT_GT(std::abs(loss({.neftune_alpha = 5}) - plain), 1e-5);
    EXPECT_GT(std::abs(loss({.teacher_weight = 0.5}) - plain), 1e-2);
    Chunk chunk(config, whole_chunk(config), {.dtype = at::kDouble});
    const Microbatch data = tiny_batch(0, 1)[0];
    const LossRule rule{.scale = 1, .tokens = kAll, .seed = 7};
    const at::Tensor before = chunk.evaluate(data, {});
    chunk.forward(0, data, {}, rule, [](int) {});
    EXPECT_TRUE(chunk.evaluate(data, {}).equal(before));
}

TEST(TokenLoss, AnEvaluationReportsTheDivergenceAtTheTemperature) {
    const Named seen = train_with(tiny_model(false), plan::gpipe(1, 1, kMicrobatches),
                                  {.teacher_weight = 1, .temperature = 3});
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
