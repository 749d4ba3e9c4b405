// Chooses the modules of a model that get LoRA, by PEFT's rules (check_target_module_exists() and
// get_pattern_key()).
#include <algorithm>
#include <cmath>
#include <map>
#include <regex>

#include <fmt/format.h>

#include "common/spec/train/lora.hpp"

namespace roll::spec {
namespace {

// A linear layer of a decoder layer.
struct Linear {
    std::string name;
    LoraPlace place = LoraPlace::Q;
    std::int64_t layer = 0;
};

// Returns the first part of a name that is a number; nullopt if there is none.
std::optional<std::int64_t> layer_of(const std::string& name) {
    static const std::regex number(R"(.*?\.[^.]*\.(\d+)\..*)");
    std::smatch match;
    if (!std::regex_match(name, match, number)) return std::nullopt;
    return std::stoll(match[1]);
}

// Returns each linear layer once, although a layer with a bias has two tensors.
std::vector<Linear> linear_layers(const std::vector<std::string>& names) {
    std::map<std::pair<std::int64_t, LoraPlace>, std::string> found;
    for (const std::string& name : names)
        if (const auto place = place_of(name))
            if (const auto layer = layer_of(name)) found[{*layer, *place}] = name;
    std::vector<Linear> linear;
    for (const auto& [at, name] : found) linear.push_back({name, at.second, at.first});
    return linear;
}

bool ends_with_part(const std::string& name, const std::string& end) {
    return name == end || name.ends_with("." + end);
}

// Returns true if `name` fits one of `patterns`. If `matches` is true, a pattern is a regular
// expression for the whole name. Otherwise a pattern is the whole name, or its end after a dot.
bool fits(const std::string& name, const std::vector<std::string>& patterns, bool matches) {
    return std::ranges::any_of(patterns, [&](const std::string& pattern) {
        return matches ? std::regex_match(name, std::regex(pattern))
                       : ends_with_part(name, pattern);
    });
}

// Returns true if the module is in one of the layers.
bool is_in_layers(const Linear& linear, const LoraPatterns& patterns) {
    if (patterns.layers.empty()) return true;
    std::optional<std::int64_t> layer = linear.layer;
    if (!patterns.layers_pattern.empty()) layer = std::nullopt;
    for (const std::string& pattern : patterns.layers_pattern) {
        const std::regex expression(R"((?:^|.*?\.))" + pattern + R"(\.(\d+)\.)");
        std::smatch match;
        if (!std::regex_search(linear.name, match, expression,
                               std::regex_constants::match_continuous))
            continue;
        const auto& number = match[match.size() - 1];
        if (number.matched) layer = std::stoll(number);
        break;
    }
    return layer && std::ranges::find(patterns.layers, *layer) != patterns.layers.end();
}

bool is_chosen(const Linear& linear, const LoraPatterns& patterns) {
    if (fits(linear.name, patterns.exclude, patterns.exclude_matches)) return false;
    if (!patterns.all_linear() && !fits(linear.name, patterns.targets, patterns.targets_match))
        return false;
    return is_in_layers(linear, patterns);
}

bool has_value(const std::string& pattern, const std::string& name) {
    return std::regex_match(name, std::regex("(.*\\.)?(" + pattern + ")"));
}

// Returns the value of the pattern that fits a module, or `usual`. Fails if two patterns give
// different values. PEFT takes the value of the first pattern, but the keys of a job file have no
// order.
tl::expected<double, Problem> value_of(const char* key, const std::string& name,
                                       const std::vector<std::pair<std::string, double>>& patterns,
                                       double usual) {
    const std::pair<std::string, double>* found = nullptr;
    for (const auto& one : patterns) {
        if (!has_value(one.first, name)) continue;
        if (found != nullptr && found->second != one.second)
            return tl::unexpected(Problem{
                key, fmt::format("has {} and {}, which both match {} and give different values; "
                                 "change one of them so that it does not match",
                                 found->first, one.first, name)});
        found = &one;
    }
    return found == nullptr ? usual : found->second;
}

// Returns a problem if a pattern fits no module, or if a layer does not exist.
std::optional<Problem> unused_pattern(const LoraPatterns& patterns,
                                      const std::vector<Linear>& linear,
                                      const std::vector<Linear>& chosen) {
    const std::string example = linear.front().name;
    for (const std::string& target : patterns.targets) {
        const auto is_of = [&](const Linear& one) {
            return fits(one.name, {target}, patterns.targets_match);
        };
        if (!patterns.all_linear() && std::ranges::none_of(linear, is_of))
            return Problem{"train.lora.targets",
                           fmt::format("has {}, which matches no linear layer of this model; its "
                                       "linear layers have names like {}",
                                       target, example)};
    }
    for (const std::int64_t layer : patterns.layers)
        if (layer < 0 || layer > linear.back().layer)
            return Problem{"train.lora.layers",
                           fmt::format("has {}; allowed: 0 to {}", layer, linear.back().layer)};
    if (chosen.empty())
        return Problem{"train.lora.targets",
                       "selects no linear layer of this model, because train.lora.exclude or "
                       "train.lora.layers_pattern excludes all layers; change one of these keys"};
    for (const auto& [key, values] : {std::pair("train.lora.rank_pattern", &patterns.ranks),
                                      std::pair("train.lora.alpha_pattern", &patterns.alphas)})
        for (const auto& [pattern, value] : *values)
            if (std::ranges::none_of(
                    chosen, [&](const Linear& one) { return has_value(pattern, one.name); }))
                return Problem{key,
                               fmt::format("has {}, which matches no module with LoRA; modules "
                                           "with LoRA have names like {}",
                                           pattern, chosen.front().name)};
    return std::nullopt;
}

}  // namespace

tl::expected<LoraSpec, Problem> resolve_lora(const LoraSpec& lora,
                                             const std::vector<std::string>& names) {
    if (!lora.patterns) return lora;
    const LoraPatterns& patterns = *lora.patterns;
    const std::vector<Linear> linear = linear_layers(names);
    if (linear.empty())
        return tl::unexpected(
            Problem{"train.lora.targets", "matches no linear layer of this model"});
    std::vector<Linear> chosen;
    std::ranges::copy_if(linear, std::back_inserter(chosen),
                         [&](const Linear& one) { return is_chosen(one, patterns); });
    if (auto problem = unused_pattern(patterns, linear, chosen)) return tl::unexpected(*problem);
    LoraSpec resolved = lora;
    resolved.modules.clear();
    for (const Linear& one : chosen) {
        const auto r = value_of("train.lora.rank_pattern", one.name, patterns.ranks,
                                static_cast<double>(lora.r));
        const auto alpha =
            value_of("train.lora.alpha_pattern", one.name, patterns.alphas, lora.alpha);
        if (!r) return tl::unexpected(r.error());
        if (!alpha) return tl::unexpected(alpha.error());
        resolved.modules.push_back({.place = one.place,
                                    .r = static_cast<std::int64_t>(*r),
                                    .alpha = *alpha,
                                    .scale = *alpha / (lora.rslora ? std::sqrt(*r) : *r),
                                    .layer = one.layer});
    }
    return resolved;
}

}  // namespace roll::spec
