#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "common/spec/check/member.hpp"
#include "common/spec/check/train_rules.hpp"
#include "common/spec/train/preference.hpp"
#include "common/spec/train/token_loss.hpp"

namespace roll::spec {
namespace {

// The keys that an objective may have in addition to `kind`, and the losses that the objective may
// have.
struct Keys {
    std::vector<std::string_view> keys;
    std::vector<std::string_view> losses = {};
};

Keys keys_of(PreferenceKind kind) {
    switch (kind) {
        case PreferenceKind::Dpo:
            return {{"loss", "beta", "label_smoothing", "nll_weight", "reference"},
                    {"sigmoid", "robust", "ipo", "hinge", "sigmoid_norm"}};
        case PreferenceKind::SimPo: return {{"beta", "gamma", "label_smoothing", "nll_weight"}};
        case PreferenceKind::Orpo: return {{"beta", "nll_weight"}};
        case PreferenceKind::Kto:
            return {{"loss", "beta", "desirable_weight", "undesirable_weight", "reference"},
                    {"kto", "apo_zero_unpaired"}};
        case PreferenceKind::Reward: return {{"center_rewards_coefficient"}};
        case PreferenceKind::Cpo: break;
    }
    return {{"loss", "beta", "label_smoothing", "nll_weight"}, {"sigmoid", "ipo", "hinge"}};
}

template <class Names>
bool contains(const Names& names, std::string_view name) {
    return std::ranges::find(names, name) != std::ranges::end(names);
}

void check_keys(const Json& objective, PreferenceKind kind, std::vector<Problem>& problems) {
    const Keys known = keys_of(kind);
    for (const auto& [key, value] : objective.items())
        if (key != "kind" && !contains(known.keys, key))
            problems.push_back(
                {"objective." + key, fmt::format("is not a key of objective {}; allowed: {}",
                                                 name_of(kind), fmt::join(known.keys, ", "))});
    const Json loss = objective.value("loss", Json());
    if (known.losses.empty() || !loss.is_string()) return;
    const auto name = loss.get<std::string>();
    if (!contains(known.losses, name))
        problems.push_back(
            {"objective.loss", fmt::format("is {}; allowed with objective {}: {}", name,
                                           name_of(kind), fmt::join(known.losses, ", "))});
    const Json smoothing = objective.value("label_smoothing", Json());
    if (smoothing.is_number() && smoothing != 0 && name != "sigmoid" && name != "robust")
        problems.push_back({"objective.label_smoothing",
                            fmt::format("is {}, but loss {} does not use this value; allowed: 0, "
                                        "or set loss to sigmoid or robust",
                                        smoothing.dump(), name)});
}

// Checks the keys of an objective whose loss is a sum over tokens.
void check_token_keys(const Json& objective, std::vector<Problem>& problems) {
    const std::string name = objective_name(objective);
    std::vector<std::string_view> keys;
    if (name == "distill")
        for (const char* const key : {"teacher", "base"}) keys.emplace_back(key);
    keys.insert(keys.end(), kTokenLossKeys.begin(), kTokenLossKeys.end());
    if (name == "distill" && !(objective.is_object() && objective.contains("teacher")))
        problems.push_back({"objective.teacher",
                            "is missing; set it to {from: DIR}, with the directory of the teacher "
                            "model"});
    if (!objective.is_object()) return;
    for (const auto& [key, value] : objective.items())
        if (key != "kind" && !contains(keys, key))
            problems.push_back(
                {"objective." + key, fmt::format("is not a key of objective {}; allowed: {}", name,
                                                 fmt::join(keys, ", "))});
}

bool has_key(const Json& document, const char* section, const char* key) {
    const Json found = document.value(section, Json());
    return found.is_object() && found.contains(key);
}

}  // namespace

std::vector<Problem> preference_problems(const Json& document) {
    std::vector<Problem> problems;
    const Json objective = document.value("objective", Json());
    const std::string name = objective_name(objective);
    const auto kind = preference_named(name);
    constexpr std::array<std::string_view, 3> kTokenObjectives{"pretrain", "sft", "distill"};
    if (!kind && !contains(kTokenObjectives, name)) return {};  // the schema refuses this name
    if (has_key(document, "data", "margin_field") && kind != PreferenceKind::Reward)
        problems.push_back(
            {"data.margin_field", fmt::format("cannot be used with objective {}; remove it, or set "
                                              "objective to reward",
                                              name)});
    if (!kind) {
        check_token_keys(objective, problems);
        return problems;
    }
    if (objective.is_object()) check_keys(objective, *kind, problems);
    if (*kind == PreferenceKind::Reward && positive(document, "/train/sample/every"))
        problems.push_back(
            {"train.sample.every",
             "cannot be used with objective reward, because a reward model writes no "
             "text; allowed: 0"});
    const Json tasks = key_at(document, "/train/evaluation/tasks");
    if (*kind == PreferenceKind::Reward && tasks.is_array() && !tasks.empty())
        problems.push_back(
            {"train.evaluation.tasks",
             "cannot be used with objective reward, because a reward model writes no text; remove "
             "it"});
    const bool given = objective.is_object() && objective.contains("reference");
    if (PreferenceSpec{.kind = *kind}.has_reference() && document.contains("train") && !given &&
        !has_key(document, "model", "from"))
        problems.push_back(
            {"objective", fmt::format("{} needs a reference model; set model.from to the model "
                                      "that the training starts from, or objective.reference",
                                      name_of(*kind))});
    return problems;
}

}  // namespace roll::spec
