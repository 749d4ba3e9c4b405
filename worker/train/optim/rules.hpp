// Decides how each parameter is updated: the update rule, the learning rate, the weight decay and
// the optimizer state. Pure.
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
    double lr_scale = 1;  // factor by which the step's learning rate is multiplied
    bool decays = false;  // true: the step's weight decay applies
    std::optional<double> weight_decay =
        std::nullopt;  // replaces the step's weight decay, even if `decays` is false
    friend bool operator==(const ParameterRule&, const ParameterRule&) = default;
};

// Returns the rule of a parameter. If neither a group nor an entry of optimizer.decays decides,
// biases and other one-dimensional parameters do not decay. With kind Muon, Muon updates the
// matrices of the layers, and AdamW updates all other parameters. LoRA+ multiplies the learning
// rate of B by `lr_ratio`.
ParameterRule rule_of(const spec::OptimizerSpec& options, const ParameterSpec& parameter,
                      double lr_ratio = 1);

// Name endings of the state's tensors, as in torch.optim. A state tensor is named after its
// parameter, followed by the ending, and has the parameter's shape.
inline constexpr std::string_view kAverage = ".exp_avg";
inline constexpr std::string_view kSquare = ".exp_avg_sq";
inline constexpr std::string_view kMomentum = ".momentum_buffer";
std::span<const std::string_view> state_endings(spec::OptimizerKind kind,
                                                const spec::OptimizerSpec& options);

// Returns the endings of all states that the optimizer's parameters can have, without duplicates.
std::vector<std::string_view> all_endings(const spec::OptimizerSpec& options);

// Throws RankFailure(invalid) if a pattern of optimizer.groups matches no parameter.
void check_groups(const spec::OptimizerSpec& options, std::span<const ParameterSpec> parameters);

}  // namespace roll::train
