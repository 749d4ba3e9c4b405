// The score of a reward model, which takes the place of the output layer. transformers gives it the
// same name in all families (...ForSequenceClassification). Pure.
#pragma once

#include <cstdint>

#include "common/json.hpp"
#include "worker/families/family.hpp"
#include "worker/families/native_tensor.hpp"

namespace roll::families {

inline constexpr const char* kOutput = "output_layer.weight";

// Returns the number of labels of a model that classifies sequences, as transformers determines it;
// 0 for other models.
std::int64_t score_labels(const Json& hf_config);

// Replaces the output layer in a native config by a score with `labels` rows.
void set_scores(Json& native, std::int64_t labels);

// Returns true if the native config has a score.
bool has_score(const Json& native);

// Returns the rule of the score's tensor.
WeightRule score_rule();

}  // namespace roll::families
