// Tests that preference pairs train in every layout as on one rank, in float64 to 1e-12 as
// layout_test.cpp does: full training with a reference, and LoRA with an objective that has a
// second term.
#include <ATen/ATen.h>

#include "tests/worker/train/pipeline/cells.hpp"

namespace roll::train {
namespace {

const spec::PreferenceSpec kDpo{.beta = 0.3, .label_smoothing = 0.1};
const spec::PreferenceSpec kOrpo{.kind = spec::PreferenceKind::Orpo, .beta = 0.5, .nll_weight = 1};

// Trains pairs. The gradients are clipped only without LoRA, whose gradients are small.
Named train_pairs(const spec::ModelConfig& config, const plan::PipelineSchedule& schedule,
                  const spec::PreferenceSpec& preference, const Cell& cell = {}) {
    static std::uint64_t seed = 1000;
    return train(World{.config = config,
                       .schedule = schedule,
                       .dp = cell.dp,
                       .tp = cell.tp,
                       .fabric = {.seed = ++seed},
                       .steps = 2,
                       .sequence = cell.sequence,
                       .zero = cell.zero,
                       .clip = config.lora.is_set() ? 0 : kClip,
                       .data = Data::Pairs,
                       .preference = preference});
}

TEST(Preference, EveryLayoutTrainsAsOneRankDoes) {
    const int m = kMicrobatches;
    for (const bool adapts : {false, true}) {
        spec::ModelConfig config = split_model(/*tied=*/true);
        if (adapts) config.lora = spec::lora_spec({{"r", 3}, {"alpha", 12}});
        const spec::PreferenceSpec& preference = adapts ? kOrpo : kDpo;
        const auto run = [&](const plan::PipelineSchedule& schedule, const Cell& cell) {
            return train_pairs(config, schedule, preference, cell);
        };
        const Named reference = run(plan::gpipe(1, 1, m), {});
        const double errors[] = {
            worst(run(plan::one_forward_one_backward(1, m / 2), {.dp = 2}), reference),
            worst(run(plan::zero_bubble_h1(2, m), {}), reference),
            worst(run(plan::interleaved(2, 2, m / 2), {.dp = 2, .zero = 1}), reference),
            worst(run(plan::gpipe(1, 1, m), {.tp = 2}), reference),
            worst(run(plan::zero_bubble_h1(2, m / 2), {.dp = 2, .tp = 2, .sequence = true}),
                  reference),
            worst(run(plan::gpipe(1, 1, m / 2), {.dp = 2, .zero = 3}), reference)};
        std::printf("%s: worst %.1e\n", adapts ? "LoRA, orpo" : "dpo",
                    *std::ranges::max_element(errors));
    }
}

TEST(Preference, ThePromptsTargetsAndTheRowsOfNoPairDoNotCount) {
    const spec::ModelConfig config = tiny_model(false);
    const Named seen = train_pairs(config, plan::gpipe(1, 1, kMicrobatches), kDpo, {.clip = kClip});
    // make_batch() makes 2 pairs, 1 pair or none of a micro-batch
    EXPECT_EQ(seen.at("0.pairs").item<double>(), kPairsOfStep);
    EXPECT_EQ(seen.at("valid.pairs").item<double>(), kPairsOfStep);
}

}  // namespace
}  // namespace roll::train
