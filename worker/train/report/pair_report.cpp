#include "worker/train/report/pair_report.hpp"

#include <cmath>
#include <cstdio>

namespace roll::train {
namespace {

double margin(const PairSums& sums) {
    return sums.mean(PairSums::RewardChosen) - sums.mean(PairSums::RewardRejected);
}

bool is_labelled(const PairSums& sums) { return sums[PairSums::Pairs] == 0; }

void put_labelled(OrderedJson& row, const std::string& prefix, const std::string& suffix,
                  const PairSums& sums) {
    const double values[] = {sums.mean(PairSums::RewardChosen),
                             sums.mean(PairSums::RewardRejected),
                             margin(sums),
                             sums.mean(PairSums::LogpChosen),
                             sums.mean(PairSums::LogpRejected),
                             sums.mean(PairSums::Kl)};
    const bool has[] = {sums[PairSums::Chosen] > 0, sums[PairSums::Rejected] > 0};
    const bool known[] = {has[0], has[1], has[0] && has[1], has[0], has[1], has[0] || has[1]};
    for (std::size_t i = 0; i < std::size(values); ++i)
        if (known[i]) row[prefix + kLabelledKeys[i] + suffix] = values[i];
    row[prefix + kLabelledKeys[std::size(values)] + suffix] = std::llround(sums.samples());
}

}  // namespace

std::span<const char* const> objective_keys(const spec::TrainSpec& spec) {
    if (spec.loss.has_teacher()) return kTeacherKeys;
    if (spec.data.labels) return kLabelledKeys;
    if (spec.data.pairs && spec.preference.compares_scores()) return kScoredKeys;
    return spec.data.pairs ? std::span<const char* const>(kPairKeys)
                           : std::span<const char* const>();
}

void put_pairs(OrderedJson& row, const std::string& prefix, const std::string& suffix,
               const PairSums& sums) {
    if (is_labelled(sums)) return put_labelled(row, prefix, suffix, sums);
    const double values[] = {sums.mean(PairSums::RewardChosen),
                             sums.mean(PairSums::RewardRejected),
                             margin(sums),
                             sums.mean(PairSums::Accuracy),
                             sums.mean(PairSums::LogpChosen),
                             sums.mean(PairSums::LogpRejected),
                             sums[PairSums::Nll] / sums[PairSums::Tokens]};
    const bool has_scores = sums[PairSums::Tokens] == 0;
    const std::size_t told = has_scores ? std::size(kScoredKeys) - 1 : std::size(values);
    for (std::size_t i = 0; i < told; ++i) row[prefix + kPairKeys[i] + suffix] = values[i];
    row[prefix + kPairKeys[std::size(values)] + suffix] = std::llround(sums[PairSums::Pairs]);
}

std::string pairs_text(const PairSums& sums) {
    char text[96];
    if (is_labelled(sums)) {
        std::snprintf(text, sizeof text,
                      "margin %+.4f, kl %.4f, %.0f of %.0f answers labelled chosen", margin(sums),
                      sums.mean(PairSums::Kl), sums[PairSums::Chosen], sums.samples());
        return text;
    }
    std::snprintf(text, sizeof text, "margin %+.4f, %.1f %% of %.0f pairs right", margin(sums),
                  100 * sums.mean(PairSums::Accuracy), sums[PairSums::Pairs]);
    return text;
}

}  // namespace roll::train
