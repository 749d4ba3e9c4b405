// Training on preferences (`objective` in a job file). Some objectives compare a chosen answer with
// a rejected answer. Kto learns from single answers that are labelled as chosen or rejected. Reward
// trains a reward model, which gives each answer a score. Options that also exist in TRL have the
// names and meanings of TRL.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "common/json.hpp"

namespace roll::spec {

// The kinds of preference objectives. Only Dpo and Kto need a reference model. They compare the
// log-probabilities of the answers under the trained model with those under the reference model. A
// sample of Kto is a single labelled answer; a sample of any other kind is a pair of answers.
enum class PreferenceKind { Dpo, SimPo, Orpo, Cpo, Kto, Reward };

inline constexpr std::array<std::pair<std::string_view, PreferenceKind>, 6> kPreferenceKinds{
    {{"dpo", PreferenceKind::Dpo},
     {"simpo", PreferenceKind::SimPo},
     {"orpo", PreferenceKind::Orpo},
     {"cpo", PreferenceKind::Cpo},
     {"kto", PreferenceKind::Kto},
     {"reward", PreferenceKind::Reward}}};

// The losses. worker/train/objective/preference.hpp has their formulas.
enum class PairLoss { Sigmoid, Robust, Ipo, Hinge, SigmoidNorm, Kto, ApoZero };

struct PreferenceSpec {
    PreferenceKind kind = PreferenceKind::Dpo;
    PairLoss loss = PairLoss::Sigmoid;  // loss of the kinds Dpo, Cpo and Kto
    double beta = 0.1;
    double label_smoothing = 0;  // share of pairs whose answers are assumed to be swapped
    double gamma = 0;            // SimPo: the margin between the answers' rewards
    double nll_weight = 0;       // weight of the chosen answers' mean -log p per token in the loss
    // Kto: weights of the losses of chosen (desirable) and of rejected (undesirable) answers
    double desirable_weight = 1, undesirable_weight = 1;
    // Reward: weight of the term (sum of a pair's two scores)^2 in the loss
    double center_rewards_coefficient = 0;
    // Dpo and Kto: directory of the reference model; empty: the starting weights
    std::string reference = {};

    bool has_reference() const {
        return kind == PreferenceKind::Dpo || kind == PreferenceKind::Kto;
    }
    // Returns true if a sample is one labelled answer, and not a pair of answers.
    bool is_unpaired() const { return kind == PreferenceKind::Kto; }
    // Returns true if the loss compares scores of a reward model, and not log-probabilities.
    bool compares_scores() const { return kind == PreferenceKind::Reward; }
    // Returns true if the loss needs an estimate of the KL divergence of the trained model from the
    // reference model.
    bool estimates_kl() const { return loss == PairLoss::Kto; }
    friend bool operator==(const PreferenceSpec&, const PreferenceSpec&) = default;
};

// Returns the kind of the objective with this name; nullopt if this is not a preference objective.
std::optional<PreferenceKind> preference_named(std::string_view name);

const char* name_of(PreferenceKind kind);

// Returns the name of an objective. `json` is `objective` of a job file: a string, or an object
// with the key `kind`. Returns "pretrain" if `json` is null, and an empty text for other types.
std::string objective_name(const Json& json);

bool is_preference(std::string_view objective);

// Returns true if a distillation learns from completions, as sft does, and not from all tokens.
bool learns_completions(const Json& objective);

// Reads `objective`, a string or an object. Requires that preference_problems() is empty.
PreferenceSpec preference_spec(const Json& json);

}  // namespace roll::spec
