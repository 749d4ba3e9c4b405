#include "common/spec/train/preference.hpp"

#include <algorithm>

#include "common/enum_name.hpp"

namespace roll::spec {
namespace {

// Names of the losses, in the order of PairLoss.
constexpr std::array kLosses = {"sigmoid", "robust",           "ipo", "hinge", "sigmoid_norm",
                                "kto",     "apo_zero_unpaired"};

// Returns the default settings of a kind of objective. These are the defaults of TRL. Only SimPO
// has the values of its paper instead.
PreferenceSpec usual(PreferenceKind kind) {
    PreferenceSpec spec{.kind = kind};
    if (kind == PreferenceKind::SimPo) spec.beta = 2, spec.gamma = 1;
    if (kind == PreferenceKind::Orpo || kind == PreferenceKind::Cpo) spec.nll_weight = 1;
    if (kind == PreferenceKind::Kto) spec.loss = PairLoss::Kto;
    if (kind == PreferenceKind::Reward) spec.beta = 1;
    return spec;
}

}  // namespace

std::optional<PreferenceKind> preference_named(std::string_view name) {
    const auto found =
        std::ranges::find(kPreferenceKinds, name, [](const auto& kind) { return kind.first; });
    return found == kPreferenceKinds.end() ? std::nullopt : std::optional(found->second);
}

const char* name_of(PreferenceKind kind) {
    return kPreferenceKinds[static_cast<std::size_t>(kind)].first.data();
}

std::string objective_name(const Json& json) {
    if (json.is_null()) return "pretrain";
    const Json name = json.is_object() ? json.value("kind", Json()) : json;
    return name.is_string() ? name.get<std::string>() : "";
}

bool learns_completions(const Json& objective) {
    return objective.is_object() && objective_name(objective) == "distill" &&
           objective.value("base", Json()) == "sft";
}

bool is_preference(std::string_view objective) { return preference_named(objective).has_value(); }

PreferenceSpec preference_spec(const Json& json) {
    PreferenceSpec spec =
        usual(preference_named(objective_name(json)).value_or(PreferenceKind::Dpo));
    if (!json.is_object()) return spec;
    spec.loss = find_name<PairLoss>(kLosses, json.value("loss", "")).value_or(spec.loss);
    spec.beta = json.value("beta", spec.beta);
    spec.label_smoothing = json.value("label_smoothing", spec.label_smoothing);
    spec.gamma = json.value("gamma", spec.gamma);
    spec.nll_weight = json.value("nll_weight", spec.nll_weight);
    spec.desirable_weight = json.value("desirable_weight", spec.desirable_weight);
    spec.undesirable_weight = json.value("undesirable_weight", spec.undesirable_weight);
    spec.center_rewards_coefficient =
        json.value("center_rewards_coefficient", spec.center_rewards_coefficient);
    spec.reference = json.value("reference", spec.reference);
    return spec;
}

}  // namespace roll::spec
