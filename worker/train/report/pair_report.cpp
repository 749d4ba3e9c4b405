#include "worker/train/report/pair_report.hpp"

#include <cmath>
#include <cstdio>

namespace roll::train {
namespace {

double margin(const PairSums& sums) {
    return sums.mean(PairSums::RewardChosen) - sums.mean(PairSums::RewardRejected);
}

}  // namespace

void put_pairs(OrderedJson& row, const std::string& prefix, const std::string& suffix,
               const PairSums& sums) {
    const double values[] = {sums.mean(PairSums::RewardChosen),
                             sums.mean(PairSums::RewardRejected),
                             margin(sums),
                             sums.mean(PairSums::Accuracy),
                             sums.mean(PairSums::LogpChosen),
                             sums.mean(PairSums::LogpRejected),
                             sums[PairSums::Nll] / sums[PairSums::Tokens]};
    for (std::size_t i = 0; i < std::size(values); ++i)
        row[prefix + kPairKeys[i] + suffix] = values[i];
    row[prefix + kPairKeys[std::size(values)] + suffix] = std::llround(sums[PairSums::Pairs]);
}

std::string pairs_text(const PairSums& sums) {
    char text[96];
    std::snprintf(text, sizeof text, "margin %+.4f, %.1f %% of %.0f pairs right", margin(sums),
                  100 * sums.mean(PairSums::Accuracy), sums[PairSums::Pairs]);
    return text;
}

}  // namespace roll::train
