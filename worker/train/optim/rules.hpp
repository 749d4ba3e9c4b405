// Decides how each parameter is updated: the update rule, the learning rate, the weight decay and
// the optimizer state. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/spec/train/model.hpp"
#include "common/spec/train/optimizer.hpp"
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

// Returns the rule of a parameter. If no group and no entry of optimizer.decays says whether a
// parameter decays, matrices decay, and biases and other one-dimensional parameters do not. With
// kind Muon, Muon updates the matrices of the layers, and AdamW updates all other parameters. With
// 8-bit states, AdamW updates the embedding and parameters of fewer than 4,096 elements. LoRA+
// multiplies the learning rate of B by `lr_ratio`.
ParameterRule rule_of(const spec::OptimizerSpec& options, const ParameterSpec& parameter,
                      double lr_ratio = 1);

// Name endings of the state's tensors, as in torch.optim, transformers (Adafactor) and bitsandbytes
// (8-bit states). A state tensor is named after its parameter, followed by the ending.
inline constexpr std::string_view kAverage = ".exp_avg";
inline constexpr std::string_view kSquare = ".exp_avg_sq";
inline constexpr std::string_view kMomentum = ".momentum_buffer";
inline constexpr std::string_view kRowSquare = ".exp_avg_sq_row", kColumnSquare = ".exp_avg_sq_col";
inline constexpr std::string_view kCodes1 = ".state1", kCodes2 = ".state2";
inline constexpr std::string_view kMost1 = ".absmax1", kMost2 = ".absmax2";
inline constexpr std::string_view kEma = ".ema";  // the average of the weights, with any rule

// The element type of a state: main_type() (Main), a code of one byte (Code) or bfloat16 (Bf16).
enum class StateType { Main, Code, Bf16 };

// The form of one state of a parameter.
struct StateForm {
    std::string_view ending;
    StateType type = StateType::Main;
    // Shape of a state that is not divided: each rank with rows of the parameter holds the whole
    // state. Empty: the state has the parameter's shape, and each rank has the state of its rows.
    std::vector<std::int64_t> whole = {};
};

// Returns the states of a parameter that is not frozen. This table decides what the optimizer
// allocates, what checkpoints store and what plans count.
std::vector<StateForm> states_of(const spec::OptimizerSpec& options,
                                 const ParameterSpec& parameter);

// Returns the bytes of an element of a state. `main`: the bytes of a main weight.
constexpr std::int64_t element_bytes(StateType type, std::int64_t main) {
    return type == StateType::Code ? 1 : type == StateType::Bf16 ? 2 : main;
}

// Returns the bytes of the optimizer state of `parameters` (states_of()). Counts only the kind of
// state whose name has this ending; empty: all kinds. `main`: the bytes of a main weight.
std::int64_t state_bytes(const spec::OptimizerSpec& options,
                         std::span<const ParameterSpec> parameters, std::int64_t main,
                         std::string_view ending = {});

// Returns the number of parameters of a chunk, from the first on, whose state is outside the memory
// of the device. This is the smallest number whose state has the share options.offload of the bytes
// of all state. The shares of ranks that divide rows among them are about the same.
std::size_t offloaded_count(const spec::OptimizerSpec& options,
                            std::span<const ParameterSpec> parameters, std::int64_t main);

// Returns the name endings (kAverage and so on) of all states that a parameter can have with these
// options. The result has no duplicates.
std::vector<std::string_view> all_endings(const spec::OptimizerSpec& options);

// Number of elements that share a scale in 8-bit states. The blocks are consecutive elements of the
// whole parameter, so the blocks do not depend on the layout.
inline constexpr std::int64_t kCodeBlock = 256;

// Returns the number of HuggingFace modules that are fused in a parameter: 3 for q, k and v; 2 for
// gate and up; otherwise 1.
std::int64_t modules_in(const std::string& name);

// Throws RankFailure(invalid) if a pattern of optimizer.groups matches no parameter.
void check_groups(const spec::OptimizerSpec& options, std::span<const ParameterSpec> parameters);

}  // namespace roll::train
