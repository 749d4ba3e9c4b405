// Reports the metrics of preference pairs, under TRL's names.
#pragma once

#include <string>

#include "common/json.hpp"
#include "worker/train/objective/preference.hpp"

namespace roll::train {

// The keys of put_pairs(), without prefix and suffix.
inline constexpr const char* kPairKeys[] = {
    "rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies",
    "logps/chosen",   "logps/rejected",   "nll_loss",        "pairs"};

// Adds the means over the pairs, and the number of pairs, to a row of the metrics.
void put_pairs(OrderedJson& row, const std::string& prefix, const std::string& suffix,
               const PairSums& sums);

// Returns the means as text, such as "margin +0.012, 75.0 % of 80 pairs right".
std::string pairs_text(const PairSums& sums);

}  // namespace roll::train
