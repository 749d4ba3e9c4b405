#include "worker/train/objective/preference.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace roll::train {
namespace {

using spec::PairLoss;
using spec::PreferenceKind;

// Largest log-probability that log_odds() uses. Larger values (up to 0) are replaced by this value,
// so that the result is finite.
constexpr double kSurest = -1e-12;

double logistic(double x) { return 1 / (1 + std::exp(-x)); }

double log_logistic(double x) {
    return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x));
}

// Returns log(1 - exp(x)) for x < 0. Uses two formulas, each in the range where the other loses
// precision.
double log1mexp(double x) {
    return x > -std::numbers::ln2 ? std::log(-std::expm1(x)) : std::log1p(-std::exp(x));
}

// A function's value and its derivative.
struct Slope {
    double value = 0, derivative = 0;
};

// Returns -(1 - e) log s(d) - e log s(-d), where s is the logistic function.
Slope smoothed(double d, double e) {
    return {-(1 - e) * log_logistic(d) - e * log_logistic(-d),
            -(1 - e) * logistic(-d) + e * logistic(d)};
}

Slope robust(double d, double e) {
    return {(-(1 - e) * log_logistic(d) + e * log_logistic(-d)) / (1 - 2 * e),
            (-(1 - e) * logistic(-d) - e * logistic(d)) / (1 - 2 * e)};
}

Slope hinge(double d) { return d < 1 ? Slope{1 - d, -1} : Slope{}; }

Slope log_odds(double log_p) {
    const double x = std::min(log_p, kSurest);
    return {x - log1mexp(x), -1 / std::expm1(x)};
}

// The values of an answer that a loss compares.
struct Answer {
    double log_prob = 0;  // sum or mean over the tokens
    double reference = 0;
    double share = 1;  // derivative of log_prob with respect to the sum over tokens
    double score() const { return log_prob - reference; }
};

struct PairValue {
    double loss = 0;
    // derivatives of the loss with respect to the answers' log_prob
    double chosen = 0, rejected = 0;
};

// Returns true if the loss compares means over the tokens, not sums.
bool compares_means(const spec::PreferenceSpec& spec) {
    return spec.loss == PairLoss::Ipo || spec.loss == PairLoss::SigmoidNorm;
}

// Returns true if the metrics also report means over the tokens, as TRL does.
bool reports_means(const spec::PreferenceSpec& spec) {
    switch (spec.kind) {
        case PreferenceKind::SimPo:
        case PreferenceKind::Orpo: return true;
        case PreferenceKind::Cpo: return compares_means(spec);
        case PreferenceKind::Dpo:
        case PreferenceKind::Kto:
        case PreferenceKind::Reward: break;
    }
    return false;
}

Answer answer_of(const PairBatch& batch, std::size_t i, bool mean) {
    const double share = mean ? 1 / batch.tokens[i] : 1;
    return {batch.log_probs[i] * share, batch.references.empty() ? 0 : batch.references[i] * share,
            share};
}

PairValue orpo(const spec::PreferenceSpec& spec, const Answer& chosen, const Answer& rejected) {
    const Slope c = log_odds(chosen.log_prob), r = log_odds(rejected.log_prob);
    const Slope loss = smoothed(c.value - r.value, 0);
    return {spec.beta * loss.value, spec.beta * loss.derivative * c.derivative,
            -spec.beta * loss.derivative * r.derivative};
}

Slope loss_of(const spec::PreferenceSpec& spec, double margin) {
    const double e = spec.label_smoothing;
    switch (spec.loss) {
        case PairLoss::Sigmoid: return smoothed(margin, e);
        case PairLoss::Robust: return robust(margin, e);
        case PairLoss::Hinge: return hinge(margin);
        case PairLoss::SigmoidNorm: return smoothed(margin, 0);
        case PairLoss::Ipo:
        case PairLoss::Kto:
        case PairLoss::ApoZero: break;
    }
    const double off = margin / spec.beta - 1 / (2 * spec.beta);
    return {off * off, 2 * off / spec.beta};
}

PairValue scored(const spec::PreferenceSpec& spec, const Answer& chosen, const Answer& rejected,
                 double margin) {
    const Slope loss = smoothed(chosen.log_prob - rejected.log_prob - margin, 0);
    const double sum = chosen.log_prob + rejected.log_prob;
    const double center = spec.center_rewards_coefficient;
    return {loss.value + center * sum * sum, loss.derivative + 2 * center * sum,
            -loss.derivative + 2 * center * sum};
}

// Returns the value of the pair whose chosen answer is sequence `i`. `mean`: the answers' values
// are means over their tokens.
PairValue value_of(const spec::PreferenceSpec& spec, const PairBatch& batch, std::size_t i,
                   bool mean) {
    const Answer chosen = answer_of(batch, i, mean), rejected = answer_of(batch, i + 1, mean);
    if (spec.kind == PreferenceKind::Orpo) return orpo(spec, chosen, rejected);
    if (spec.kind == PreferenceKind::Reward)
        return scored(spec, chosen, rejected, batch.margins.empty() ? 0 : batch.margins[i / 2]);
    const double margin = spec.beta * (chosen.score() - rejected.score()) - spec.gamma;
    const Slope loss = loss_of(spec, margin);
    return {loss.value, spec.beta * loss.derivative, -spec.beta * loss.derivative};
}

// Returns the loss of a labelled answer, and its derivative with respect to the log-probability.
Slope labelled_loss(const spec::PreferenceSpec& spec, const PairBatch& batch, std::size_t i) {
    const bool chosen = batch.labels[i] != 0;
    const double sign = chosen ? 1 : -1;
    const double weight = chosen ? spec.desirable_weight : spec.undesirable_weight;
    const double off = sign * spec.beta * (answer_of(batch, i, false).score() - batch.kl);
    // 1 - s(x) is s(-x), whose derivative with respect to x is -s(x) s(-x).
    return {weight * logistic(-off), -weight * sign * spec.beta * logistic(off) * logistic(-off)};
}

PairSums labelled_sums(const spec::PreferenceSpec& spec, const PairBatch& batch) {
    PairSums sums;
    for (std::size_t i = 0; i < batch.labels.size(); ++i) {
        const Answer answer = answer_of(batch, i, false);
        const bool chosen = batch.labels[i] != 0;
        sums[chosen ? PairSums::Chosen : PairSums::Rejected] += 1;
        sums[PairSums::Loss] += labelled_loss(spec, batch, i).value;
        sums[chosen ? PairSums::RewardChosen : PairSums::RewardRejected] +=
            spec.beta * answer.score();
        sums[chosen ? PairSums::LogpChosen : PairSums::LogpRejected] += answer.log_prob;
        sums[PairSums::Kl] += batch.kl;
    }
    return sums;
}

std::vector<double> labelled_coefficients(const spec::PreferenceSpec& spec, const PairBatch& batch,
                                          const PairScale& scale) {
    std::vector<double> coefficients(batch.log_probs.size(), 0.0);
    for (std::size_t i = 0; i < batch.labels.size(); ++i)
        coefficients[i] = scale.pair * labelled_loss(spec, batch, i).derivative;
    return coefficients;
}

}  // namespace

PairSums pair_sums(const spec::PreferenceSpec& spec, const PairBatch& batch) {
    if (spec.is_unpaired()) return labelled_sums(spec, batch);
    const bool mean = compares_means(spec) || reports_means(spec), told = reports_means(spec);
    PairSums sums;
    for (std::size_t i = 0; i + 1 < batch.log_probs.size(); i += 2) {
        for (const auto count : {PairSums::Pairs, PairSums::Chosen, PairSums::Rejected})
            sums[count] += 1;
        sums[PairSums::Loss] += value_of(spec, batch, i, mean).loss;
        const Answer chosen = answer_of(batch, i, told), rejected = answer_of(batch, i + 1, told);
        sums[PairSums::RewardChosen] += spec.beta * chosen.score();
        sums[PairSums::RewardRejected] += spec.beta * rejected.score();
        sums[PairSums::Accuracy] += chosen.score() > rejected.score() ? 1 : 0;
        if (spec.compares_scores()) continue;
        sums[PairSums::Nll] -= batch.log_probs[i];
        sums[PairSums::Tokens] += batch.tokens[i];
        sums[PairSums::LogpChosen] += chosen.log_prob;
        sums[PairSums::LogpRejected] += rejected.log_prob;
    }
    return sums;
}

double scaled_loss(const spec::PreferenceSpec& spec, const PairSums& sums, const PairScale& scale) {
    return scale.pair * sums[PairSums::Loss] + spec.nll_weight * scale.token * sums[PairSums::Nll];
}

double mean_loss(const spec::PreferenceSpec& spec, const PairSums& sums) {
    const double tokens = sums[PairSums::Tokens];
    return scaled_loss(spec, sums, {1 / sums.samples(), tokens > 0 ? 1 / tokens : 0});
}

std::vector<double> pair_coefficients(const spec::PreferenceSpec& spec, const PairBatch& batch,
                                      const PairScale& scale) {
    if (spec.is_unpaired()) return labelled_coefficients(spec, batch, scale);
    const bool mean = compares_means(spec) || reports_means(spec);
    std::vector<double> coefficients(batch.log_probs.size(), 0.0);
    for (std::size_t i = 0; i + 1 < batch.log_probs.size(); i += 2) {
        const PairValue value = value_of(spec, batch, i, mean);
        const double chosen = value.chosen * answer_of(batch, i, mean).share;
        const double rejected = value.rejected * answer_of(batch, i + 1, mean).share;
        coefficients[i] = scale.pair * chosen - scale.token * spec.nll_weight;
        coefficients[i + 1] = scale.pair * rejected;
    }
    return coefficients;
}

}  // namespace roll::train
