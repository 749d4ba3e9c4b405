#include "common/spec/train/read_lora.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace roll::spec {

bool is_module_name(const std::string& text) {
    return text.find('.') == std::string::npos && place_of(text).has_value();
}

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

bool targets_match(const Json& lora) {
    const Json targets = lora.value("targets", Json());
    return targets.is_string() && targets != kAllLinear &&
           !is_module_name(targets.get<std::string>());
}

Json object_of(const Json& json, const char* key) {
    Json value = json.is_object() ? json.value(key, Json()) : Json();
    return value.is_object() ? value : Json::object();
}

double number_or(const Json& json, std::string_view key, double otherwise) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : otherwise;
}

namespace {

std::vector<std::pair<std::string, double>> values_of(const Json& patterns) {
    std::vector<std::pair<std::string, double>> values;
    for (const auto& [pattern, value] : patterns.items())
        if (value.is_number()) values.emplace_back(pattern, value.get<double>());
    return values;
}

// Returns the patterns of train.lora. Returns nullopt if no patterns are needed, because the job
// chooses all modules by the last parts of their names.
std::optional<LoraPatterns> patterns_of(const Json& json, const std::vector<std::string>& targets) {
    const Json ranks = object_of(json, "rank_pattern"), alphas = object_of(json, "alpha_pattern"),
               layers = json.value("layers", Json());
    LoraPatterns patterns{.targets = targets, .exclude = names_in(json.value("exclude", Json()))};
    patterns.targets_match = targets_match(json);
    patterns.exclude_matches = json.value("exclude", Json()).is_string();
    if (layers.is_number_integer()) patterns.layers = {layers.get<std::int64_t>()};
    if (layers.is_array()) patterns.layers = layers.get<std::vector<std::int64_t>>();
    patterns.layers_pattern = names_in(json.value("layers_pattern", Json()));
    patterns.ranks = values_of(ranks);
    patterns.alphas = values_of(alphas);
    const auto has_name = [](const auto& value) { return is_module_name(value.first); };
    const auto is_plain = [](const std::string& target) {
        return is_module_name(target) || target == kAllLinear;
    };
    if (std::ranges::all_of(targets, is_plain) && patterns.exclude.empty() && layers.is_null() &&
        std::ranges::all_of(patterns.ranks, has_name) &&
        std::ranges::all_of(patterns.alphas, has_name))
        return std::nullopt;
    return patterns;
}

}  // namespace

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
    for (const auto& [name, base] : kLoraBases)
        if (json.value("base", Json()) == name) lora.base = base;
    if (const Json from = json.value("from", Json()); from.is_string()) lora.from = from;
    lora.double_quantization = json.value("double_quantization", Json()) == true;
    const std::vector<std::string> targets = targets_of(json);
    const Json ranks = object_of(json, "rank_pattern"), alphas = object_of(json, "alpha_pattern");
    lora.patterns = patterns_of(json, targets);
    for (const auto& [name, place] : kLoraPlaces) {
        if (!lora.patterns && !is_target(targets, name)) continue;
        LoraModule module{.place = place};
        module.r = static_cast<std::int64_t>(number_or(ranks, name, static_cast<double>(lora.r)));
        module.alpha = number_or(alphas, name, lora.alpha);
        const auto r = static_cast<double>(module.r);
        module.scale = module.alpha / (lora.rslora ? std::sqrt(r) : r);
        lora.modules.push_back(module);
    }
    return lora;
}

}  // namespace roll::spec
