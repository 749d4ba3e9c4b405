#include <cmath>

#include <gtest/gtest.h>

#include "worker/train/objective/preference.hpp"

namespace roll::train {
namespace {

using spec::PairLoss;
using spec::PreferenceKind;
using spec::PreferenceSpec;

const std::vector<PreferenceSpec> kSpecs = {
    {.beta = 0.3, .label_smoothing = 0.2},
    {.loss = PairLoss::Robust, .beta = 0.3, .label_smoothing = 0.1, .nll_weight = 0.5},
    {.loss = PairLoss::Hinge, .beta = 0.2},
    {.loss = PairLoss::Ipo, .beta = 0.6},
    {.loss = PairLoss::SigmoidNorm, .beta = 2},
    {.kind = PreferenceKind::SimPo, .beta = 2, .label_smoothing = 0.1, .gamma = 0.4},
    {.kind = PreferenceKind::Orpo, .beta = 0.7, .nll_weight = 1},
    {.kind = PreferenceKind::Cpo, .loss = PairLoss::Ipo, .beta = 0.4, .nll_weight = 1},
    {.kind = PreferenceKind::Kto,
     .loss = PairLoss::Kto,
     .beta = 0.3,
     .desirable_weight = 1.3,
     .undesirable_weight = 0.6},
    {.kind = PreferenceKind::Kto, .loss = PairLoss::ApoZero, .beta = 0.2},
    {.kind = PreferenceKind::Reward, .beta = 1, .center_rewards_coefficient = 0.01},
};

// Three pairs and a sequence that belongs to none.
const std::vector<double> kLogProbs = {-9, -7.5, -3, -12, -20, -21, -5};
const std::vector<double> kReferences = {-8, -8, -5, -10, -22, -20, -5};
const std::vector<double> kTokens = {4, 3, 2, 6, 9, 9, 3};
const PairScale kScale = {1.0 / 3, 1.0 / 15};
const std::vector<std::uint8_t> kLabels = {1, 0, 0, 1, 1, 0};  // the last sequence has none
constexpr double kDivergence = 0.7;

const std::vector<double> kMargins = {0.5, -1, 2};

PairBatch batch_of(const std::vector<double>& log_probs) {
    return {log_probs, kReferences, kTokens, kLabels, kDivergence, kMargins};
}

TEST(Preference, CoefficientsAreTheDerivativesOfTheLoss) {
    for (const PreferenceSpec& spec : kSpecs) {
        const auto loss = [&](const std::vector<double>& log_probs) {
            return scaled_loss(spec, pair_sums(spec, batch_of(log_probs)), kScale);
        };
        const std::vector<double> coefficients =
            pair_coefficients(spec, batch_of(kLogProbs), kScale);
        ASSERT_EQ(coefficients.size(), kLogProbs.size());
        for (std::size_t i = 0; i < kLogProbs.size(); ++i) {
            constexpr double kStep = 1e-5;
            std::vector<double> up = kLogProbs, down = kLogProbs;
            up[i] += kStep;
            down[i] -= kStep;
            EXPECT_NEAR(coefficients[i], (loss(up) - loss(down)) / (2 * kStep), 1e-8)
                << name_of(spec.kind) << " " << static_cast<int>(spec.loss) << ", sequence " << i;
        }
        EXPECT_EQ(coefficients.back(), 0);
    }
}

TEST(Preference, SumsCountPairsAndNotTheSequenceWithoutAPartner) {
    const PairSums sums = pair_sums(kSpecs[0], batch_of(kLogProbs));
    EXPECT_EQ(sums[PairSums::Pairs], 3);
    EXPECT_EQ(sums[PairSums::Nll], 9 + 3 + 20);
    EXPECT_EQ(sums[PairSums::Tokens], 4 + 2 + 9);
    EXPECT_EQ(sums[PairSums::LogpRejected], -7.5 - 12 - 21);
    EXPECT_NEAR(sums[PairSums::RewardChosen], 0.3 * (-1 + 2 + 2), 1e-15);
    EXPECT_NEAR(sums[PairSums::RewardRejected], 0.3 * (0.5 - 2 - 1), 1e-15);
    EXPECT_EQ(sums[PairSums::Accuracy], 2);  // the first pair's rejected answer has gained more
    // simpo, orpo and cpo's ipo report means over the tokens
    const PairSums means = pair_sums(kSpecs[6], batch_of(kLogProbs));
    EXPECT_NEAR(means[PairSums::LogpChosen], -9.0 / 4 - 3.0 / 2 - 20.0 / 9, 1e-14);
}

TEST(Preference, TheLossOfAModelThatIsItsReferenceIsLog2) {
    const PairSums sums = pair_sums({}, {kLogProbs, kLogProbs, kTokens});
    EXPECT_NEAR(mean_loss({}, sums), std::log(2.0), 1e-15);
    EXPECT_EQ(sums[PairSums::Accuracy], 0);
}

TEST(Preference, SumsOfLabelledAnswersCountEachLabel) {
    const PairSums sums = pair_sums(kSpecs[8], batch_of(kLogProbs));
    EXPECT_EQ(sums[PairSums::Pairs], 0);
    EXPECT_EQ(sums[PairSums::Chosen], 3);
    EXPECT_EQ(sums[PairSums::Rejected], 3);
    EXPECT_EQ(sums.samples(), 6);
    EXPECT_NEAR(sums.mean(PairSums::RewardChosen), 0.3 * (-1 - 2 + 2) / 3, 1e-15);
    EXPECT_NEAR(sums.mean(PairSums::RewardRejected), 0.3 * (0.5 + 2 - 1) / 3, 1e-15);
    EXPECT_EQ(sums.mean(PairSums::LogpChosen), (-9.0 - 12 - 20) / 3);
    EXPECT_NEAR(sums.mean(PairSums::Kl), kDivergence, 1e-15);
}

TEST(Preference, LossesOfManyBatchesAddUpToThatOfAll) {
    const PreferenceSpec& spec = kSpecs[6];
    const auto part = [&](std::size_t first, std::size_t count) {
        return pair_sums(spec, {std::span(kLogProbs).subspan(first, count),
                                std::span(kReferences).subspan(first, count),
                                std::span(kTokens).subspan(first, count)});
    };
    PairSums sums = part(0, 2);
    sums += part(2, 4);
    EXPECT_NEAR(mean_loss(spec, sums), mean_loss(spec, part(0, 6)), 1e-15);
}

// The expected numbers are from arithmetic with 60 digits.
TEST(Preference, OrpoIsFiniteAndExactForAnAnswerThatIsNearlyCertain) {
    const PreferenceSpec spec{.kind = PreferenceKind::Orpo, .beta = 1};
    const std::vector<double> tokens = {1, 1};
    for (const auto& [log_prob, loss] :
         {std::pair(-1e-7, 8.942549390528070e-09), std::pair(-1e-11, 8.942548983425915e-13)}) {
        const std::vector<double> log_probs = {log_prob, -2.5};
        const PairSums sums = pair_sums(spec, {log_probs, {}, tokens});
        EXPECT_NEAR(sums[PairSums::Loss], loss, 1e-12 * loss);
    }
    for (const std::vector<double>& certain :
         {std::vector{0.0, -2.5}, std::vector{-2.5, 0.0}, std::vector{0.0, 0.0}}) {
        EXPECT_TRUE(std::isfinite(pair_sums(spec, {certain, {}, tokens})[PairSums::Loss]));
        for (const double one : pair_coefficients(spec, {certain, {}, tokens}, {1, 1}))
            EXPECT_TRUE(std::isfinite(one));
    }
}

TEST(Preference, LossesStayFiniteForMarginsOfAnySize) {
    for (const PreferenceSpec& spec : kSpecs)
        for (const double far : {-1e5, 1e5}) {
            const std::vector<double> log_probs = {-2e5 + far, -2e5 - far}, tokens = {10, 10};
            const PairBatch batch{log_probs, {}, tokens, std::span(kLabels).first(2), kDivergence};
            EXPECT_TRUE(std::isfinite(pair_sums(spec, batch)[PairSums::Loss]));
            for (const double one : pair_coefficients(spec, batch, {1, 1}))
                EXPECT_TRUE(std::isfinite(one)) << name_of(spec.kind);
        }
}

}  // namespace
}  // namespace roll::train
