// Decides how the parameters are updated: by which rule, with which learning rate and weight decay,
// and with which state. Pure.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "common/spec/model.hpp"
#include "common/spec/optimizer.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

struct ParameterRule {
    spec::OptimizerKind kind = spec::OptimizerKind::AdamW;
    double lr_scale = 1;  // factor of the step's learning rate
    bool decays = false;  // by the step's weight decay
    std::optional<double> weight_decay =
        std::nullopt;  // in place of the step's, if `decays` or not
    friend bool operator==(const ParameterRule&, const ParameterRule&) = default;
};

// Returns the rule of a parameter. Without a group or an entry of optimizer.decays, biases and
// other one-dimensional parameters do not decay. With kind Muon, the matrices of the layers are
// Muon's, and all other parameters AdamW's. LoRA+ multiplies the learning rate of B by `lr_ratio`.
ParameterRule rule_of(const spec::OptimizerSpec& options, const ParameterSpec& parameter,
                      double lr_ratio = 1);

// The names of a rule's state are those of torch.optim, as endings of the parameter's name. Each
// state has the parameter's shape.
inline constexpr std::string_view kAverage = ".exp_avg";
inline constexpr std::string_view kSquare = ".exp_avg_sq";
inline constexpr std::string_view kMomentum = ".momentum_buffer";
std::span<const std::string_view> state_endings(spec::OptimizerKind kind,
                                                const spec::OptimizerSpec& options);

// Returns all endings that parameters of an optimizer have, each once.
std::vector<std::string_view> all_endings(const spec::OptimizerSpec& options);

// Throws RankFailure(invalid) if a pattern of optimizer.groups matches no parameter.
void check_groups(const spec::OptimizerSpec& options, std::span<const ParameterSpec> parameters);

}  // namespace roll::train
