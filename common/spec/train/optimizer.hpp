// train.optimizer: the update rule, its schedules, and groups of parameters with their own
// settings.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::spec {

enum class LrSchedule { Constant, Linear, Cosine, InverseSquareRoot, Wsd };
enum class WsdDecay { Linear, Cosine, Exponential, MinusSqrt };
enum class WeightDecaySchedule { Constant, Linear, Cosine };

// The update rules. Lion follows its paper (arXiv 2302.06675, algorithm 2), Adafactor follows
// transformers, and AdamW with 8-bit states follows bitsandbytes. AdamWBf16 is AdamW with bfloat16
// moments. All other rules follow
// torch.optim. Adam and SGD add the weight decay to the gradient; the other rules decay the weights
// directly.
enum class OptimizerKind { AdamW, Adam, Sgd, Lion, Muon, Adafactor, AdamW8bit, AdamWBf16 };
inline constexpr std::array<std::pair<std::string_view, OptimizerKind>, 8> kOptimizerKinds{
    {{"adamw", OptimizerKind::AdamW},
     {"adam", OptimizerKind::Adam},
     {"sgd", OptimizerKind::Sgd},
     {"lion", OptimizerKind::Lion},
     {"muon", OptimizerKind::Muon},
     {"adafactor", OptimizerKind::Adafactor},
     {"adamw_8bit", OptimizerKind::AdamW8bit},
     {"adamw_bf16", OptimizerKind::AdamWBf16}}};

// Selects the factor by which Muon multiplies the learning rate of a matrix of `rows` x `columns`.
// The names are from torch.optim.Muon. Original: sqrt(max(1, rows / columns)). MatchRmsAdamW: 0.2 *
// sqrt(max(rows, columns)), which makes learning rates of AdamW suitable for Muon.
enum class UpdateScale { Original, MatchRmsAdamW };

// Settings of Adafactor (transformers.Adafactor); worker/train/optim/adafactor.hpp has the
// formulas.
struct AdafactorSpec {
    double clip_threshold = 1, decay_rate = -0.8;
    bool scale_parameter = false, relative_step = false, warmup_init = false;
};

// The moving average of the weights (train.ema); decay 0: there is no average.
struct EmaSpec {
    double decay = 0;
    std::int64_t every = 1;  // number of updates between two updates of the average
};

// Settings of the parameters whose native names match a glob.
struct ParameterGroup {
    std::vector<std::string> globs;
    std::optional<double> lr;  // peak learning rate; nullopt: use lr_scale instead
    double lr_scale = 1;       // factor of each step's learning rate
    // constant decay; nullopt: the decay of the other parameters
    std::optional<double> weight_decay;
};

// plan/lr_schedule.hpp describes the schedules of the learning rate.
struct OptimizerSpec {
    double lr = 1e-3;
    double init_lr = 0;
    double min_lr = 0;
    std::int64_t warmup_steps = 0;
    double warmup_ratio = 0;       // warm-up as a share of all steps; 0: use warmup_steps instead
    std::int64_t decay_steps = 0;  // step at which the decay ends; 0: train.steps
    LrSchedule schedule = LrSchedule::Cosine;
    // wsd: number of steps in which the rate decays; the decay ends at decay_steps
    std::int64_t wsd_decay_steps = 0;
    WsdDecay wsd_decay = WsdDecay::Exponential;
    double weight_decay = 0.1;
    // weight decay at train.steps; equals weight_decay if weight_decay_schedule is Constant
    double weight_decay_end = 0.1;
    WeightDecaySchedule weight_decay_schedule = WeightDecaySchedule::Constant;
    double clip_grad = 1.0;  // maximum norm of the gradient; 0: no clipping
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    // Pairs of a name pattern and a flag. The first pair whose pattern matches the name of a
    // parameter decides whether the weight decay applies to this parameter. If no pattern matches,
    // the weight decay applies to parameters with 2 dimensions.
    std::vector<std::pair<std::string, bool>> decays;
    OptimizerKind kind = OptimizerKind::AdamW;
    double momentum = 0;    // momentum of SGD and Muon
    bool nesterov = false;  // Nesterov momentum of SGD and Muon
    UpdateScale update_scale = UpdateScale::Original;
    int ns_steps = 5;  // number of Newton-Schulz iterations of Muon
    // The first group whose pattern matches a parameter's name applies
    std::vector<ParameterGroup> groups = {};
    AdafactorSpec adafactor = {};
    EmaSpec ema = {};
    double offload = 0;  // share of the state that is outside the memory of the device
};

std::string_view name_of(OptimizerKind kind);

// Reads the kind, the keys that only some kinds have, and the groups. Requires that
// optimizer_problems() is empty.
Result<void> read_update_rule(const Json& json, OptimizerSpec& optimizer);

// Returns the kind with this name; AdamW if there is none.
OptimizerKind optimizer_named(std::string_view name);

// Returns the globs in a group's pattern, in which the character | separates globs.
std::vector<std::string> globs_of(const std::string& match);

}  // namespace roll::spec
