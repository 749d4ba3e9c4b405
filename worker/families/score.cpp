#include "worker/families/score.hpp"

#include <iterator>
#include <string>

#include "worker/families/expression.hpp"

namespace roll::families {

std::int64_t score_labels(const Json& hf_config) {
    const Json* names = value_at(hf_config, "architectures");
    if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string() ||
        !names->front().get<std::string>().ends_with("ForSequenceClassification"))
        return 0;
    const Json* labels = value_at(hf_config, "id2label");
    if (labels != nullptr && labels->is_object()) return std::ssize(*labels);
    const Json* count = value_at(hf_config, "num_labels");
    return count != nullptr && count->is_number_integer() ? count->get<std::int64_t>() : 2;
}

void set_scores(Json& native, std::int64_t labels) {
    native["score_labels"] = labels;
    native["tie_embeddings_and_output_weights"] = false;
}

bool has_score(const Json& native) { return native.contains("score_labels"); }

WeightRule score_rule() {
    WeightRule rule;
    rule.native = kScore;
    rule.hf = {kScore};
    rule.shapes = {{"score_labels", "hidden_size"}};
    rule.stage = Stage::Last;
    return rule;
}

}  // namespace roll::families
