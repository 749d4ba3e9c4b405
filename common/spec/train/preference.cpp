#include "common/spec/train/preference.hpp"

namespace roll::spec {
namespace {

constexpr std::array<std::pair<std::string_view, PairLoss>, 7> kLosses{
    {{"sigmoid", PairLoss::Sigmoid},
     {"robust", PairLoss::Robust},
     {"ipo", PairLoss::Ipo},
     {"hinge", PairLoss::Hinge},
     {"sigmoid_norm", PairLoss::SigmoidNorm},
     {"kto", PairLoss::Kto},
     {"apo_zero_unpaired", PairLoss::ApoZero}}};

template <class E, std::size_t N>
std::optional<E> value_named(const std::array<std::pair<std::string_view, E>, N>& names,
                             std::string_view name) {
    for (const auto& [known, value] : names)
        if (known == name) return value;
    return std::nullopt;
}

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
    return value_named(kPreferenceKinds, name);
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

bool is_preference(std::string_view objective) {
    return value_named(kPreferenceKinds, objective).has_value();
}

PreferenceSpec preference_spec(const Json& json) {
    PreferenceSpec spec =
        usual(value_named(kPreferenceKinds, objective_name(json)).value_or(PreferenceKind::Dpo));
    if (!json.is_object()) return spec;
    spec.loss = value_named(kLosses, json.value("loss", std::string())).value_or(spec.loss);
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
