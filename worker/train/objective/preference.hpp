// Losses of preference data: pairs of a chosen and a rejected answer to the same prompt, or single
// answers with a label that says whether the answer was chosen or rejected.
//
// Let c and r be the log-probabilities of the chosen and the rejected answer (summed over their
// tokens), c0 and r0 their log-probabilities under the reference model, and n and m their numbers
// of tokens. Let s be the logistic function, e = label_smoothing, and d = beta ((c - c0) - (r -
// r0)). A pair has the loss
//
//   dpo sigmoid       -(1 - e) log s(d) - e log s(-d)          arXiv:2305.18290; e: cDPO
//   dpo robust        (-(1 - e) log s(d) + e log s(-d)) / (1 - 2 e)          arXiv:2403.00409
//   dpo hinge         max(0, 1 - d)                                          arXiv:2305.10425
//   dpo ipo           ((c - c0) / n - (r - r0) / m - 1 / (2 beta))^2         arXiv:2310.12036
//   dpo sigmoid_norm  -log s(beta ((c - c0) / n - (r - r0) / m))
//   cpo               as dpo with c0 = r0 = 0                                arXiv:2401.08417
//   simpo             as dpo sigmoid with d = beta (c / n - r / m) - gamma   arXiv:2405.14734
//   orpo              -beta log s(log odds(c / n) - log odds(r / m))         arXiv:2403.07691
//
//   reward            -log s(c - r - margin) + center_rewards_coefficient (c + r)^2
//
// where log odds(x) = x - log(1 - exp(x)). For reward (Bradley-Terry; the margin of a pair is from
// arXiv:2307.09288, and the second term from arXiv:2312.09244), c and r are the scores that a
// reward model gives the answers. Let y be the log-probability of a labelled answer, y0 its
// log-probability under the reference model, and z the divergence from the reference model. A
// labelled answer has the loss
//
//   kto, chosen       desirable_weight (1 - s(beta (y - y0 - z)))            arXiv:2402.01306
//   kto, rejected     undesirable_weight (1 - s(beta (z - y + y0)))
//   apo_zero_unpaired as kto with z = 0                                      arXiv:2408.06266
//
// The divergence z is the mean of y - y0 over mismatched answers, or 0 if the mean is negative. It
// counts as a constant in the derivative of the loss. The loss of a batch is the mean over its
// pairs or labelled answers, plus nll_weight times the mean of -log p over the tokens of the chosen
// answers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/spec/train/preference.hpp"

namespace roll::train {

// A batch of answers as sequences. The chosen answer of pair k is sequence 2 k, and the rejected
// answer is sequence 2 k + 1. If the number of sequences is odd, the last one belongs to no pair.
// For an unpaired objective, sequence k has the label labels[k]; a sequence without a label does
// not count.
struct PairBatch {
    // for each sequence: its log-probability, summed over its tokens; for `reward`: its score
    std::span<const double> log_probs;
    // log-probabilities of the sequences under the reference model; empty: all 0
    std::span<const double> references;
    std::span<const double> tokens;  // number of tokens of each sequence; more than 0 in a pair
    // only for an unpaired objective: 1 if the answer was chosen, 0 if it was rejected
    std::span<const std::uint8_t> labels = {};
    double kl = 0;                         // only for an unpaired objective: the divergence z
    std::span<const double> margins = {};  // only for `reward`: margin of each pair; empty: all 0
};

// The loss of a batch multiplies sums by these factors: 1 / the number of pairs or labelled
// answers, and 1 / the number of tokens of the chosen answers. The numbers are counted over all
// micro-batches of all replicas.
struct PairScale {
    double pair = 0;
    double token = 0;
};

// Sums over pairs, or over labelled answers. LogpChosen and LogpRejected are sums of the answers'
// log-probabilities, as the loss compares them. For simpo, orpo and cpo with loss ipo, an answer's
// log-probability is the mean over its tokens. For all other losses, it is the sum over its tokens.
// The reward of an answer is beta times (its log-probability minus its log-probability under the
// reference model).
struct PairSums {
    enum Index {
        Pairs,     // number of pairs; 0 if the answers are labelled
        Chosen,    // number of chosen answers
        Rejected,  // number of rejected answers
        Loss,
        Nll,     // -log p of the chosen answers; 0 for a reward model
        Tokens,  // number of tokens of the chosen answers; 0 for a reward model
        RewardChosen,
        RewardRejected,
        Accuracy,    // number of pairs whose chosen answer has the higher reward
        LogpChosen,  // LogpChosen and LogpRejected are 0 for a reward model
        LogpRejected,
        Kl,  // for labelled answers: the divergence z times the number of answers
        kCount
    };
    std::array<double, kCount> sums{};

    double operator[](Index index) const { return sums[index]; }
    double& operator[](Index index) { return sums[index]; }
    // Returns the number of pairs or labelled answers.
    double samples() const { return sums[Pairs] > 0 ? sums[Pairs] : sums[Chosen] + sums[Rejected]; }
    // Returns the mean over the pairs or labelled answers. For a reward or a log-probability, this
    // is the mean over the chosen (or the rejected) answers.
    double mean(Index index) const {
        const bool chosen = index == RewardChosen || index == LogpChosen;
        const bool rejected = index == RewardRejected || index == LogpRejected;
        return sums[index] / (chosen ? sums[Chosen] : rejected ? sums[Rejected] : samples());
    }
    PairSums& operator+=(const PairSums& other) {
        for (std::size_t i = 0; i < kCount; ++i) sums[i] += other.sums[i];
        return *this;
    }
};

PairSums pair_sums(const spec::PreferenceSpec& spec, const PairBatch& batch);

// Returns the loss of a batch that has these sums.
double scaled_loss(const spec::PreferenceSpec& spec, const PairSums& sums, const PairScale& scale);

// Returns the loss of a batch that consists only of these pairs or labelled answers.
double mean_loss(const spec::PreferenceSpec& spec, const PairSums& sums);

// Returns the derivative of the loss with respect to the log-probability of each sequence.
std::vector<double> pair_coefficients(const spec::PreferenceSpec& spec, const PairBatch& batch,
                                      const PairScale& scale);

}  // namespace roll::train
