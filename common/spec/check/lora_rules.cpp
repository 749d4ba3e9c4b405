#include "common/spec/check/lora_rules.hpp"

#include <algorithm>
#include <cctype>
#include <regex>
#include <string_view>

#include <fmt/format.h>

#include "common/spec/train/preference.hpp"
#include "common/spec/train/read_lora.hpp"

namespace roll::spec {
namespace {

constexpr std::size_t kPatternMax = 256;  // maximum length of a regular expression

// Returns true if the text has no character with a meaning in regular expressions.
bool is_word(const std::string& text) {
    return std::ranges::all_of(text, [](char c) { return c == '_' || std::isalnum(c) != 0; });
}

bool is_regular(const std::string& pattern) {
    // Refuse counted repetitions, because rolld compiles the pattern: a{300} can make 100,000
    // states.
    if (pattern.size() > kPatternMax || pattern.find('{') != std::string::npos) return false;
    try {
        const std::regex compiled(pattern);
        return true;
    } catch (const std::regex_error&) {
        return false;
    }
}

std::string listed_places() {
    std::string list;
    for (const auto& [name, place] : kLoraPlaces)
        list += (list.empty() ? "" : ", ") + std::string(name);
    return list;
}

void check_pattern(const std::string& path, const std::string& pattern,
                   std::vector<Problem>& problems) {
    if (!is_regular(pattern))
        problems.push_back({path, fmt::format("has {}; allowed: a regular expression of at "
                                              "most {} characters, without `{{`",
                                              pattern, kPatternMax)});
}

void check_values(const Json& lora, const std::vector<std::string>& targets,
                  std::vector<Problem>& problems) {
    for (const char* key : {"rank_pattern", "alpha_pattern"}) {
        const Json pattern = object_of(lora, key);
        for (const auto& [name, value] : pattern.items()) {
            const std::string path = fmt::format("train.lora.{}.{}", key, name);
            // Compare only the last parts of the two names, because one name may have more leading
            // parts than the other.
            const auto is_of = [&](const std::string& target) {
                return place_of(target) == place_of(name);
            };
            const bool is_known =
                place_of(name) && (targets_match(lora) || is_target(targets, name) ||
                                   std::ranges::any_of(targets, is_of));
            if (is_word(name) && !is_known)
                problems.push_back({path,
                                    "is not one of the targets; allowed: a name in "
                                    "train.lora.targets, or a regular expression"});
            else
                check_pattern(fmt::format("train.lora.{}", key), name, problems);
        }
    }
}

void check_targets(const Json& lora, std::vector<Problem>& problems) {
    const std::vector<std::string> targets = targets_of(lora);
    if (targets.empty())
        problems.push_back(
            {"train.lora.targets", fmt::format("is empty; allowed: `{}`, or modules of {}",
                                               kAllLinear, listed_places())});
    if (targets_match(lora)) check_pattern("train.lora.targets", targets[0], problems);
    for (const std::string& target : targets)
        if (!targets_match(lora) && !place_of(target) &&
            (target != kAllLinear || targets.size() > 1))
            problems.push_back(
                {"train.lora.targets",
                 fmt::format("has {}, which matches no linear layer of the model; allowed: `{}` "
                             "alone, or modules of {}",
                             target, kAllLinear, listed_places())});
    check_values(lora, targets, problems);
}

void check_layers(const Json& lora, std::vector<Problem>& problems) {
    const Json exclude = lora.value("exclude", Json());
    if (exclude.is_string())
        check_pattern("train.lora.exclude", exclude.get<std::string>(), problems);
    for (const std::string& pattern : names_in(lora.value("layers_pattern", Json())))
        check_pattern("train.lora.layers_pattern", pattern, problems);
    const bool has_layers = !lora.value("layers", Json()).is_null();
    if (has_layers && targets_match(lora))
        problems.push_back({"train.lora.layers",
                            "cannot be used if train.lora.targets is a regular expression; put the "
                            "layers into the expression"});
    if (!has_layers && !lora.value("layers_pattern", Json()).is_null())
        problems.push_back({"train.lora.layers_pattern", "needs train.lora.layers"});
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

// Refuses exports that merge the adapter of a reward model into its base model, because the base
// model has no `score` layer.
void check_reward_export(const Json& given, std::vector<Problem>& problems) {
    if (given.value("merge", Json()) == true)
        problems.push_back(
            {"export.merge",
             "is true, but the base model has no `score` layer into which the adapter's `score` "
             "could be merged; allowed: false with objective reward and train.lora"});
    const Json every = given.value("every", Json());
    if (every.is_number_integer() && every != 0)
        problems.push_back(
            {"export.every",
             "is " + every.dump() +
                 ", but Roll checks an export during training by merging it and its checkpoint "
                 "into the base model, which has no `score` layer; allowed: 0 with objective "
                 "reward and train.lora"});
}

}  // namespace

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
    if (objective_name(document.value("objective", Json())) == "reward")
        check_reward_export(given, problems);
    check_targets(lora, problems);
    check_layers(lora, problems);
    check_saved_modules(lora, problems);
    if (lora.value("double_quantization", Json()) == true && lora.value("base", Json()) != "nf4")
        problems.push_back(
            {"train.lora.double_quantization",
             "is true, but train.lora.base is not nf4, and only nf4 has scales that can be "
             "quantized; allowed: false, or set train.lora.base to nf4"});
    const Json model = object_of(document, "model");
    if (!model.contains("from") && model.contains("family"))
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
    return problems;
}

std::vector<Problem> lora_target_problems(const LoraSpec& lora,
                                          const std::vector<std::string>& names) {
    const auto exists = [&](std::string_view module) {
        return std::ranges::any_of(names, [&](const std::string& name) {
            return std::string_view(name).substr(name.rfind('.') + 1) == module;
        });
    };
    std::string allowed;
    for (const auto& [name, place] : kLoraPlaces)
        if (exists(name)) allowed += (allowed.empty() ? "" : ", ") + std::string(name);
    if (auto resolved = resolve_lora(lora, names); !resolved) return {resolved.error()};
    for (const LoraModule& module : lora.modules)
        if (!lora.patterns && !exists(name_of(module.place)))
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
