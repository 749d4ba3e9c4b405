#include "worker/convert/adapter/config.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace roll::convert {
namespace {

std::string last_word(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// Returns the number as JSON. If it differs from an integer only by a floating-point error, returns
// the integer: 16 for 16.000000000000004.
Json number(double value) {
    const double nearest = std::round(value);
    if (std::fabs(value - nearest) < 1e-9 * std::max(1.0, std::fabs(value)))
        return static_cast<std::int64_t>(nearest);
    return value;
}

Json most_common(const std::map<std::string, Json>& values) {
    std::map<std::string, int> count;
    Json best;
    int most = 0;
    for (const auto& [module, value] : values)
        if (const int now = ++count[value.dump()]; now > most) {
            most = now;
            best = value;
        }
    return best;
}

// Returns names that match all of `modules` and no other module in `all`. The name of a module is
// its last part ("q_proj") if that matches only modules in `modules`, else its full name.
std::set<std::string> names_of(const std::set<std::string>& modules,
                               const std::vector<std::string>& all) {
    std::set<std::string> incomplete;
    for (const std::string& module : all)
        if (!modules.contains(module)) incomplete.insert(last_word(module));
    std::set<std::string> names;
    for (const std::string& module : modules)
        names.insert(incomplete.contains(last_word(module)) ? module : last_word(module));
    return names;
}

Json pattern(const std::map<std::string, Json>& values, const Json& usual,
             const std::vector<std::string>& all) {
    std::map<std::string, std::set<std::string>> by_value;
    for (const auto& [module, value] : values)
        if (value != usual) by_value[value.dump()].insert(module);
    Json result = Json::object();
    for (const auto& [value, modules] : by_value)
        for (const std::string& name : names_of(modules, all)) result[name] = Json::parse(value);
    return result;
}

bool names_a_layer(const Json& names) {
    const std::string text = names.dump();
    return text.find(".layers.") != std::string::npos;
}

std::vector<std::string> sorted(const std::set<std::string>& words) {
    return {words.begin(), words.end()};
}

}  // namespace

LoraTargets lora_targets(const std::vector<families::NativeTensor>& native, bool huggingface) {
    std::set<std::string> linear;
    std::set<std::string> embedding;
    std::set<std::string> router;
    for (const families::NativeTensor& tensor : native) {
        const bool in_layer =
            tensor.stage == families::Stage::Layer || tensor.stage == families::Stage::Mtp;
        const bool is_router = tensor.name.ends_with(".router.weight");
        const bool is_embedding = tensor.name == "embedding.word_embeddings.weight";
        if (!tensor.name.ends_with(".weight") || tensor.shape.size() != 2) continue;
        if (!in_layer && !is_embedding) continue;
        std::set<std::string>& words = is_embedding ? embedding : is_router ? router : linear;
        std::vector<std::string> names{tensor.name};
        if (huggingface) names.clear();
        for (const families::HfTensor& source : tensor.sources)
            if (huggingface && source.name.ends_with(".weight")) names.push_back(source.name);
        for (const std::string& name : names)
            words.insert(last_word(name.substr(0, name.rfind('.'))));
    }
    return {sorted(linear), sorted(embedding), sorted(router)};
}

Result<Json> adapter_config(const Json& from, const std::vector<NativeLora>& modules,
                            const std::vector<std::string>& whole,
                            const std::vector<std::string>& all, bool is_local) {
    const bool rslora = from.value("use_rslora", Json(false)) == true;
    std::map<std::string, Json> ranks;
    std::map<std::string, Json> alphas;
    std::set<std::string> names;
    bool parameters = false;
    for (const NativeLora& one : modules) {
        const auto lora_rank = static_cast<double>(one.lora_rank);
        ranks[one.module] = one.lora_rank;
        alphas[one.module] = number(one.scale * (rslora ? std::sqrt(lora_rank) : lora_rank));
        if (!one.parameter) names.insert(one.module);
        parameters |= one.parameter;
    }
    Json config = from;
    for (const char* key : {"exclude_modules", "layers_to_transform", "layers_pattern"})
        if (config.contains(key)) config[key] = nullptr;
    if (!parameters && config.contains("target_parameters")) config["target_parameters"] = nullptr;
    if (!modules.empty()) {
        config["r"] = most_common(ranks);
        config["lora_alpha"] = most_common(alphas);
    }
    config["rank_pattern"] = pattern(ranks, config.value("r", Json()), all);
    config["alpha_pattern"] = pattern(alphas, config.value("lora_alpha", Json()), all);
    config["target_modules"] = names_of(names, all);
    config["modules_to_save"] =
        whole.empty() ? Json(nullptr) : Json(names_of({whole.begin(), whole.end()}, all));
    if (is_local &&
        (names_a_layer(config["rank_pattern"]) || names_a_layer(config["alpha_pattern"]) ||
         names_a_layer(config["target_modules"])))
        return fail(
            ErrorCode::InvalidArgument,
            "the adapter has different settings for different layers; with pp or vpp above 1, the "
            "target cannot store them, because each pipeline stage numbers its layers from 0",
            "--pp 1 --vpp 1");
    return config;
}

}  // namespace roll::convert
