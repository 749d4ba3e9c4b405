// Tests what counts in a step of preference pairs, and the estimate of the divergence of labelled
// answers. grid_test.cpp trains both in every layout.
#include <ATen/ATen.h>

#include "tests/worker/train/pipeline/world.hpp"

namespace roll::train {
namespace {

const spec::PreferenceSpec kDpo{.beta = 0.3, .label_smoothing = 0.1};
const spec::PreferenceSpec kKto{.kind = spec::PreferenceKind::Kto,
                                .loss = spec::PairLoss::Kto,
                                .beta = 0.05,
                                .desirable_weight = 1.5,
                                .undesirable_weight = 0.7};

// Trains pairs or labelled answers. The gradients of labelled answers are small, and not clipped.
Named train_pairs(const spec::PreferenceSpec& preference, int dp = 1) {
    return train(World{.config = tiny_model(false),
                       .schedule = plan::gpipe(1, 1, kMicrobatches / dp),
                       .dp = dp,
                       .steps = 2,
                       .clip = preference.is_unpaired() ? 0 : kClip,
                       .data = preference.is_unpaired() ? Data::Labels : Data::Pairs,
                       .preference = preference});
}

TEST(Preference, ThePromptsTargetsAndTheRowsOfNoPairDoNotCount) {
    const Named seen = train_pairs(kDpo);
    // make_batch() makes 2 pairs, 1 pair or none of a micro-batch
    EXPECT_EQ(seen.at("0.pairs").item<double>(), kPairsOfStep);
    EXPECT_EQ(seen.at("valid.pairs").item<double>(), kPairsOfStep);
}

TEST(Preference, TheDivergenceIsThatOfTheWholeStep) {
    const Named one = train_pairs(kKto);
    EXPECT_EQ(one.at("0.pairs").item<double>(), kAnswersOfStep);
    const std::string kl = "0.pair_sum." + std::to_string(PairSums::Kl);
    EXPECT_GT(one.at(kl).item<double>(), 10 * kAnswersOfStep);
    expect_close(train_pairs(kKto, 4).at(kl), one.at(kl), kl);
}

}  // namespace
}  // namespace roll::train
