// Tests that preference pairs and labelled answers train in every layout as on one rank, in float64
// to 1e-12 as layout_test.cpp does: full training with a reference, and LoRA with an objective that
// has a second term. Labelled answers train with an estimate of the divergence, which is a mean
// over the micro-batches of all replicas.
#include <ATen/ATen.h>

#include "common/spec/train/read_lora.hpp"
#include "tests/worker/train/pipeline/cells.hpp"

namespace roll::train {
namespace {

const spec::PreferenceSpec kDpo{.beta = 0.3, .label_smoothing = 0.1};
const spec::PreferenceSpec kOrpo{.kind = spec::PreferenceKind::Orpo, .beta = 0.5, .nll_weight = 1};
const spec::PreferenceSpec kKto{.kind = spec::PreferenceKind::Kto,
                                .loss = spec::PairLoss::Kto,
                                .beta = 0.05,
                                .desirable_weight = 1.5,
                                .undesirable_weight = 0.7};
const spec::PreferenceSpec kReward{
    .kind = spec::PreferenceKind::Reward, .beta = 1, .center_rewards_coefficient = 0.2};

// Trains pairs or labelled answers. The gradients of LoRA and of labelled answers are small, and
// not clipped.
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
                       .clip = config.lora.is_set() || preference.is_unpaired() ? 0 : kClip,
                       .data = preference.is_unpaired() ? Data::Labels : Data::Pairs,
                       .preference = preference});
}

TEST(Preference, EveryLayoutTrainsAsOneRankDoes) {
    const int m = kMicrobatches;
    for (const auto& [preference, adapts] :
         {std::pair(kDpo, false), std::pair(kOrpo, true), std::pair(kKto, false),
          std::pair(kKto, true), std::pair(kReward, false)}) {
        spec::ModelConfig config = split_model(/*tied=*/!preference.compares_scores());
        config.scores = preference.compares_scores();
        if (adapts) config.lora = spec::lora_spec({{"r", 3}, {"alpha", 12}});
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
        std::printf("%s%s: worst %.1e\n", name_of(preference.kind), adapts ? ", LoRA" : "",
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

TEST(Preference, TheDivergenceIsThatOfTheWholeStep) {
    const spec::ModelConfig config = tiny_model(false);
    const auto run = [&](int dp, int micro) {
        return train_pairs(config, plan::gpipe(1, 1, micro), kKto, {.dp = dp, .clip = kClip});
    };
    const Named one = run(1, kMicrobatches);
    EXPECT_EQ(one.at("0.pairs").item<double>(), kAnswersOfStep);
    const std::string kl = "0.pair_sum." + std::to_string(PairSums::Kl);
    EXPECT_GT(one.at(kl).item<double>(), 10 * kAnswersOfStep);
    expect_close(run(kMicrobatches / 2, 2).at(kl), one.at(kl), kl);
}

}  // namespace
}  // namespace roll::train
