// Reports the metrics of preference pairs and labelled answers, under TRL's names.
#pragma once

#include <span>
#include <string>

#include "common/json.hpp"
#include "common/spec/train/train.hpp"
#include "worker/train/objective/preference.hpp"

namespace roll::train {

// The keys that put_pairs() writes, without prefix and suffix: for pairs, for pairs with scores of
// a reward model, and for labelled answers.
inline constexpr const char* kPairKeys[] = {
    "rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies",
    "logps/chosen",   "logps/rejected",   "nll_loss",        "pairs"};
inline constexpr const char* kScoredKeys[] = {"rewards/chosen", "rewards/rejected",
                                              "rewards/margins", "rewards/accuracies", "pairs"};
inline constexpr const char* kLabelledKeys[] = {
    "rewards/chosen", "rewards/rejected", "rewards/margins", "logps/chosen", "logps/rejected", "kl",
    "answers"};

// The key of the mean divergence from a teacher.
inline constexpr const char* kTeacherKeys[] = {"teacher_kl"};

// Returns the keys that the objective adds to a job's rows, without prefix and suffix: the keys
// that put_pairs() writes, or kTeacherKeys. Empty if the objective adds none.
std::span<const char* const> objective_keys(const spec::TrainSpec& spec);

// Adds the means over the pairs or labelled answers, and their number, to a row of the metrics.
// Leaves out a mean over zero answers.
void put_pairs(OrderedJson& row, const std::string& prefix, const std::string& suffix,
               const PairSums& sums);

// Returns the means as text, such as "margin +0.012, 75.0 % of 80 pairs right" or "margin +0.012,
// kl 0.203, 41 of 80 answers labelled chosen".
std::string pairs_text(const PairSums& sums);

}  // namespace roll::train
