#include "worker/train/optim/rules.hpp"

#include <algorithm>

#include <ATen/core/Tensor.h>

#include "worker/train/process/failure.hpp"

namespace roll::train {
namespace {

bool is_vocabulary(const std::string& name) {
    return name.starts_with("embedding.") || name.starts_with("output_layer.") ||
           name == "score.weight";
}

// Parameters with fewer elements have no 8-bit states. This is min_8bit_size of bitsandbytes.
constexpr std::int64_t kCodedLeast = 4096;

bool has_codes(const ParameterSpec& parameter) {
    return !parameter.name.starts_with("embedding.") &&
           c10::multiply_integers(whole_sizes(parameter)) >= kCodedLeast;
}

// Returns the states that an optimizer of this kind keeps for a parameter.
std::vector<StateForm> forms_of(spec::OptimizerKind kind, const spec::OptimizerSpec& options,
                                const ParameterSpec& parameter) {
    using enum spec::OptimizerKind;
    switch (kind) {
        case AdamW:
        case Adam: return {{kAverage}, {kSquare}};
        case Lion: return {{kAverage}};
        case Sgd:
            if (options.momentum == 0) return {};
            [[fallthrough]];
        case Muon: return {{kMomentum}};
        case Adafactor: {
            const std::vector<std::int64_t>& sizes = whole_sizes(parameter);
            if (sizes.size() < 2) return {{kSquare}};
            return {{kRowSquare, StateType::Main, {sizes[0]}},
                    {kColumnSquare, StateType::Main, {modules_in(parameter.name), sizes[1]}}};
        }
        case AdamWBf16: return {{kAverage, StateType::Bf16}, {kSquare, StateType::Bf16}};
        case AdamW8bit: break;
    }
    const std::int64_t blocks =
        (c10::multiply_integers(whole_sizes(parameter)) + kCodeBlock - 1) / kCodeBlock;
    return {{kCodes1, StateType::Code},
            {kCodes2, StateType::Code},
            {kMost1, StateType::Main, {blocks}},
            {kMost2, StateType::Main, {blocks}}};
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
    if (options.kind == spec::OptimizerKind::AdamW8bit && !has_codes(parameter))
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

std::vector<StateForm> states_of(const spec::OptimizerSpec& options,
                                 const ParameterSpec& parameter) {
    std::vector<StateForm> forms = forms_of(rule_of(options, parameter).kind, options, parameter);
    if (options.ema.decay > 0) forms.push_back({kEma});
    return forms;
}

std::int64_t state_bytes(const spec::OptimizerSpec& options,
                         std::span<const ParameterSpec> parameters, std::int64_t main,
                         std::string_view ending) {
    std::int64_t bytes = 0;
    for (const ParameterSpec& one : parameters) {
        if (one.frozen) continue;
        for (const StateForm& form : states_of(options, one))
            if (ending.empty() || form.ending == ending)
                bytes += element_bytes(form.type, main) *
                         c10::multiply_integers(form.whole.empty() ? one.sizes : form.whole);
    }
    return bytes;
}

std::size_t offloaded_count(const spec::OptimizerSpec& options,
                            std::span<const ParameterSpec> parameters, std::int64_t main) {
    if (options.offload == 1) return parameters.size();
    const double least =
        options.offload * static_cast<double>(state_bytes(options, parameters, main));
    std::size_t count = 0;
    for (double bytes = 0; count < parameters.size() && bytes < least; ++count)
        bytes += static_cast<double>(state_bytes(options, parameters.subspan(count, 1), main));
    return count;
}

std::vector<std::string_view> all_endings(const spec::OptimizerSpec& options) {
    using enum spec::OptimizerKind;
    std::vector<std::string_view> endings;
    const auto add = [&](spec::OptimizerKind kind, std::vector<std::int64_t> sizes) {
        for (const StateForm& form : forms_of(kind, options, {.name = {}, .sizes = sizes}))
            if (std::ranges::find(endings, form.ending) == endings.end())
                endings.push_back(form.ending);
    };
    add(options.kind, {1, 1});
    add(options.kind, {1});
    if (options.kind == Muon || options.kind == AdamW8bit) add(AdamW, {1});
    if (options.ema.decay > 0) endings.push_back(kEma);
    return endings;
}

std::int64_t modules_in(const std::string& name) {
    const auto is = [&](const char* layer) {
        return name.ends_with(std::string(layer) + ".weight") ||
               name.ends_with(std::string(layer) + ".bias");
    };
    return is("linear_qkv") ? 3 : is("linear_fc1") ? 2 : 1;
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
