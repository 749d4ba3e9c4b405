#include "common/spec/lora.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "common/spec/preference.hpp"

namespace roll::spec {
namespace {

constexpr const char* kAllLinear = "all-linear";

std::string listed_places() {
    std::string list;
    for (const auto& [name, place] : kLoraPlaces)
        list += (list.empty() ? "" : ", ") + std::string(name);
    return list;
}

std::optional<LoraPlace> place_named(const std::string& name) {
    for (const auto& [known, place] : kLoraPlaces)
        if (name == known) return place;
    return std::nullopt;
}

// Returns the names in a list of strings, or in a single string.
std::vector<std::string> names_in(const Json& json) {
    std::vector<std::string> names;
    if (json.is_string()) names.push_back(json.get<std::string>());
    if (!json.is_array()) return names;
    for (const Json& one : json)
        if (one.is_string()) names.push_back(one.get<std::string>());
    return names;
}

std::vector<std::string> targets_of(const Json& lora) {
    return names_in(lora.value("targets", Json(kAllLinear)));
}

bool is_target(const std::vector<std::string>& targets, std::string_view name) {
    return targets == std::vector<std::string>{kAllLinear} ||
           std::ranges::find(targets, name) != targets.end();
}

Json object_of(const Json& json, const char* key) {
    Json value = json.is_object() ? json.value(key, Json()) : Json();
    return value.is_object() ? value : Json::object();
}

double number_or(const Json& json, std::string_view key, double otherwise) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : otherwise;
}

void check_targets(const Json& lora, std::vector<Problem>& problems) {
    const std::vector<std::string> targets = targets_of(lora);
    if (targets.empty())
        problems.push_back(
            {"train.lora.targets", fmt::format("is empty; allowed: `{}`, or modules of {}",
                                               kAllLinear, listed_places())});
    for (const std::string& target : targets)
        if (!place_named(target) && (target != kAllLinear || targets.size() > 1))
            problems.push_back(
                {"train.lora.targets",
                 fmt::format("has {}, which matches no linear layer of the model; allowed: `{}` "
                             "alone, or modules of {}",
                             target, kAllLinear, listed_places())});
    for (const char* key : {"rank_pattern", "alpha_pattern"}) {
        const Json pattern = object_of(lora, key);
        for (const auto& [name, value] : pattern.items())
            if (!place_named(name) || !is_target(targets, name))
                problems.push_back(
                    {fmt::format("train.lora.{}.{}", key, name),
                     "is not one of the targets; allowed: a name in train.lora.targets, without a "
                     "layer's number"});
    }
}

void check_saved_modules(const Json& lora, std::vector<Problem>& problems) {
    for (const std::string& name : names_in(lora.value("modules_to_save", Json()))) {
        const auto is_named = [&](const auto& saved) { return saved.first == name; };
        if (std::ranges::none_of(kSavedModules, is_named))
            problems.push_back({"train.lora.modules_to_save",
                                fmt::format("has {}, which cannot be trained in full together with "
                                            "LoRA; allowed: embed_tokens, lm_head",
                                            name)});
    }
}

constexpr std::array<std::pair<std::string_view, LoraBase>, 3> kBases{
    {{"full", LoraBase::Full}, {"nf4", LoraBase::Nf4}, {"int8", LoraBase::Int8}}};

}  // namespace

const char* name_of(LoraPlace place) {
    return kLoraPlaces[static_cast<std::size_t>(place)].first.data();
}

const char* name_of(LoraBase base) { return kBases[static_cast<std::size_t>(base)].first.data(); }

LoraSpec lora_spec(const Json& json) {
    LoraSpec lora;
    if (!json.is_object()) return lora;
    lora.r = static_cast<std::int64_t>(number_or(json, "r", 8));
    lora.alpha = number_or(json, "alpha", 8);
    lora.rslora = json.value("rslora", Json()) == true;
    lora.dropout = number_or(json, "dropout", 0);
    lora.dora = json.value("dora", Json()) == true;
    lora.lr_ratio = number_or(json, "lr_ratio", 1);
    lora.modules_to_save = names_in(json.value("modules_to_save", Json()));
    for (const auto& [name, base] : kBases)
        if (json.value("base", Json()) == name) lora.base = base;
    lora.double_quantization = json.value("double_quantization", Json()) == true;
    const std::vector<std::string> targets = targets_of(json);
    const Json ranks = object_of(json, "rank_pattern"), alphas = object_of(json, "alpha_pattern");
    for (const auto& [name, place] : kLoraPlaces) {
        if (!is_target(targets, name)) continue;
        LoraModule module{.place = place};
        module.r = static_cast<std::int64_t>(number_or(ranks, name, static_cast<double>(lora.r)));
        module.alpha = number_or(alphas, name, lora.alpha);
        const auto r = static_cast<double>(module.r);
        module.scale = module.alpha / (lora.rslora ? std::sqrt(r) : r);
        lora.modules.push_back(module);
    }
    return lora;
}

std::vector<Problem> lora_problems(const Json& document) {
    std::vector<Problem> problems;
    const Json train = object_of(document, "train"), given = object_of(document, "export");
    const Json lora = train.value("lora", Json());
    if (!lora.is_object()) {
        if (given.value("merge", Json()) == true)
            problems.push_back(
                {"export.merge",
                 "is true, but there is no adapter to merge; allowed: false, or set train.lora"});
        return problems;
    }
    if (given.value("merge", Json()) == true &&
        objective_name(document.value("objective", Json())) == "reward")
        problems.push_back(
            {"export.merge",
             "is true, but the base model has no `score` layer into which the adapter's `score` "
             "could be merged; allowed: false with objective reward and train.lora"});
    check_targets(lora, problems);
    check_saved_modules(lora, problems);
    if (lora.value("double_quantization", Json()) == true && lora.value("base", Json()) != "nf4")
        problems.push_back(
            {"train.lora.double_quantization",
             "is true, but only the scales of base nf4 can be quantized; allowed: false, or set "
             "train.lora.base to nf4"});
    const Json model = object_of(document, "model");
    if (!model.contains("from"))
        problems.push_back(
            {"train.lora", "needs a trained model; set model.from to a model's directory"});
    if (model.contains("from") && model.contains("vocab_size"))
        problems.push_back(
            {"model.vocab_size",
             "cannot be used with train.lora, because PEFT's adapters do not add rows to the "
             "vocabulary; remove it"});
    if (!model.value("freeze", Json::array()).empty())
        problems.push_back(
            {"model.freeze",
             "cannot be used with train.lora, which freezes the model's own weights; remove it"});
    if (number_or(object_of(document, "resources"), "gpus_per_node", 0) > 0)
        problems.push_back(
            {"train.lora",
             "runs on CPUs only; set resources.slots_per_node instead of gpus_per_node"});
    return problems;
}

std::vector<Problem> lora_target_problems(const LoraSpec& lora,
                                          const std::vector<std::string>& modules) {
    const auto exists = [&](std::string_view name) {
        return std::ranges::find(modules, name) != modules.end();
    };
    std::string allowed;
    for (const auto& [name, place] : kLoraPlaces)
        if (exists(name)) allowed += (allowed.empty() ? "" : ", ") + std::string(name);
    for (const LoraModule& module : lora.modules)
        if (!exists(name_of(module.place)))
            return {{"train.lora.targets",
                     fmt::format("asks for {}, which matches no linear layer of this model; "
                                 "allowed: {}",
                                 name_of(module.place),
                                 allowed.empty() ? "no target" : "a list of " + allowed)}};
    for (const std::string& name : lora.modules_to_save) {
        if (name != "embed_tokens" && (exists("score") ? name == "lm_head" : name == "score"))
            return {{"train.lora.modules_to_save",
                     fmt::format("has {0}, but {1}; remove {0}", name,
                                 name == "score" ? "only a reward model has a score"
                                                 : "a reward model has no output layer")}};
        if (!exists("lm_head") && !exists("score"))
            return {
                {"train.lora.modules_to_save",
                 fmt::format("has {0}; remove {0}, because this model ties its embedding and its "
                             "output layer, and a PEFT adapter cannot hold a tied weight",
                             name)}};
    }
    return {};
}

}  // namespace roll::spec
