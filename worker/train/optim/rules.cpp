#include "worker/train/optim/rules.hpp"

#include <algorithm>
#include <array>

#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

bool is_vocabulary(const std::string& name) {
    return name.starts_with("embedding.") || name.starts_with("output_layer.") ||
           name == "score.weight";
}

bool does_decay(const spec::OptimizerSpec& options, const ParameterSpec& parameter) {
    for (const auto& [glob, decays] : options.decays)
        if (matches_any({glob}, parameter.name)) return decays;
    return parameter.sizes.size() > 1;
}

}  // namespace

ParameterRule rule_of(const spec::OptimizerSpec& options, const ParameterSpec& parameter,
                      double lr_ratio) {
    ParameterRule rule{.kind = options.kind, .decays = does_decay(options, parameter)};
    const bool is_matrix = parameter.sizes.size() == 2 && !is_vocabulary(parameter.name);
    if (options.kind == spec::OptimizerKind::Muon && !is_matrix)
        rule.kind = spec::OptimizerKind::AdamW;
    const auto group = std::ranges::find_if(options.groups, [&](const spec::ParameterGroup& one) {
        return matches_any(one.globs, parameter.name);
    });
    if (group != options.groups.end()) {
        rule.lr_scale = group->lr ? *group->lr / options.lr : group->lr_scale;
        rule.weight_decay = group->weight_decay;
    }
    if (parameter.name.find(".lora_B.") != std::string::npos) rule.lr_scale *= lr_ratio;
    return rule;
}

std::span<const std::string_view> state_endings(spec::OptimizerKind kind,
                                                const spec::OptimizerSpec& options) {
    static constexpr std::array kMoments{kAverage, kSquare};
    static constexpr std::array kBuffer{kMomentum};
    switch (kind) {
        case spec::OptimizerKind::AdamW:
        case spec::OptimizerKind::Adam: return kMoments;
        case spec::OptimizerKind::Sgd:
            return std::span(kBuffer).first(options.momentum > 0 ? 1 : 0);
        case spec::OptimizerKind::Lion: return std::span(kMoments).first(1);
        case spec::OptimizerKind::Muon: break;
    }
    return kBuffer;
}

std::vector<std::string_view> all_endings(const spec::OptimizerSpec& options) {
    std::vector<std::string_view> endings;
    const auto add = [&](spec::OptimizerKind kind) {
        for (const std::string_view ending : state_endings(kind, options))
            if (std::ranges::find(endings, ending) == endings.end()) endings.push_back(ending);
    };
    add(options.kind);
    if (options.kind == spec::OptimizerKind::Muon) add(spec::OptimizerKind::AdamW);
    return endings;
}

void check_groups(const spec::OptimizerSpec& options, std::span<const ParameterSpec> parameters) {
    for (std::size_t i = 0; i < options.groups.size(); ++i)
        for (const std::string& glob : options.groups[i].globs)
            if (std::ranges::none_of(parameters, [&](const ParameterSpec& parameter) {
                    return matches_any({glob}, parameter.name);
                }))
                throw RankFailure(2, "train.optimizer.groups[" + std::to_string(i) +
                                         "].match: no parameter's name matches " + glob +
                                         "; names are, for example, " + parameters.front().name +
                                         " and " + parameters[1].name + " (docs/training.md)");
}

}  // namespace roll::train
