// Losses of pairs of answers to the same prompt, of which one was chosen and one rejected, and of
// single answers that are labelled as chosen or rejected.
//
// With the log-probabilities c and r of the answers (summed over their tokens), those of the
// reference model c0 and r0, the numbers of tokens n and m, s the logistic function, e =
// label_smoothing, and d = beta ((c - c0) - (r - r0)), a pair has the loss
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
// where log odds(x) = x - log(1 - exp(x)). A labelled answer with the log-probability y, that of
// the reference model y0, and the divergence z has the loss
//
//   kto, chosen       desirable_weight (1 - s(beta (y - y0 - z)))            arXiv:2402.01306
//   kto, rejected     undesirable_weight (1 - s(beta (z - y + y0)))
//   apo_zero_unpaired as kto with z = 0                                      arXiv:2408.06266
//
// where z is the mean of y - y0 over mismatched answers, at least 0. It is a constant: the loss has
// no derivative with respect to it. The loss of a batch is the mean over its pairs or labelled
// answers, plus nll_weight times the mean of -log p over the tokens of the chosen answers.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "common/spec/preference.hpp"

namespace roll::train {

// Answers as sequences. The chosen answer of pair k is sequence 2 k, the rejected one sequence
// 2 k + 1; a last sequence without a partner belongs to no pair. Of an unpaired objective, sequence
// k has the label k; a sequence without a label does not count.
struct PairBatch {
    std::span<const double> log_probs;   // sum over the tokens of each sequence
    std::span<const double> references;  // the same of the reference model; empty: 0
    std::span<const double> tokens;      // number of tokens of each sequence; more than 0 in a pair
    std::span<const std::uint8_t> labels = {};  // unpaired: 1 if the answer was chosen, else 0
    double kl = 0;                              // unpaired: the divergence z
};

// Factors of a batch's sums in its loss: 1 / the number of pairs or labelled answers, and 1 / the
// number of tokens of the chosen answers, in all micro-batches of all replicas.
struct PairScale {
    double pair = 0;
    double token = 0;
};

// Sums over pairs, or over labelled answers. The log-probabilities of the metrics (LogpChosen,
// LogpRejected) are those that the loss compares: means over the tokens for simpo, orpo and cpo's
// ipo, else sums. Rewards are beta times them, less the reference's.
struct PairSums {
    enum Index {
        Pairs,     // number of pairs; 0 if the answers are labelled
        Chosen,    // number of chosen answers
        Rejected,  // number of rejected answers
        Loss,
        Nll,     // -log p of the chosen answers
        Tokens,  // number of tokens of the chosen answers
        RewardChosen,
        RewardRejected,
        Accuracy,  // number of pairs whose chosen answer has the higher reward
        LogpChosen,
        LogpRejected,
        Kl,  // labelled answers: the divergence z times the number of answers
        kCount
    };
    std::array<double, kCount> sums{};

    double operator[](Index index) const { return sums[index]; }
    double& operator[](Index index) { return sums[index]; }
    // Returns the number of pairs or labelled answers.
    double samples() const { return sums[Pairs] > 0 ? sums[Pairs] : sums[Chosen] + sums[Rejected]; }
    // Returns the mean over the pairs or labelled answers; of a reward or a log-probability, the
    // mean over the chosen or the rejected answers.
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

// Returns the loss of a batch with these sums.
double scaled_loss(const spec::PreferenceSpec& spec, const PairSums& sums, const PairScale& scale);

// Returns the loss of a batch that consists of these pairs or labelled answers alone.
double mean_loss(const spec::PreferenceSpec& spec, const PairSums& sums);

// Returns the derivative of the loss with respect to the log-probability of each sequence.
std::vector<double> pair_coefficients(const spec::PreferenceSpec& spec, const PairBatch& batch,
                                      const PairScale& scale);

}  // namespace roll::train
