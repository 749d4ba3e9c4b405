// train.optimizer: the rule of the update, its schedules, and groups of parameters with settings of
// their own.
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
#include "common/spec/problem.hpp"

namespace roll::spec {

enum class LrSchedule { Constant, Linear, Cosine, InverseSquareRoot, Wsd };
enum class WsdDecay { Linear, Cosine, Exponential, MinusSqrt };
enum class WeightDecaySchedule { Constant, Linear, Cosine };

// The rules of the update. The formulas are those of torch.optim and, for Lion, of its paper
// (arXiv 2302.06675, algorithm 2). Adam and SGD add the weight decay to the gradient; the others
// decay the weights themselves.
enum class OptimizerKind { AdamW, Adam, Sgd, Lion, Muon };
inline constexpr std::array<std::pair<std::string_view, OptimizerKind>, 5> kOptimizerKinds{
    {{"adamw", OptimizerKind::AdamW},
     {"adam", OptimizerKind::Adam},
     {"sgd", OptimizerKind::Sgd},
     {"lion", OptimizerKind::Lion},
     {"muon", OptimizerKind::Muon}}};

// Muon's factor of the learning rate of a matrix with `rows` x `columns` elements, under
// torch.optim.Muon's names: sqrt(max(1, rows / columns)), or 0.2 * sqrt(max(rows, columns)), with
// which AdamW's learning rates fit.
enum class UpdateScale { Original, MatchRmsAdamW };

// Settings of the parameters whose native names match a glob.
struct ParameterGroup {
    std::vector<std::string> globs;
    std::optional<double> lr;            // peak learning rate; nullopt: lr_scale counts
    double lr_scale = 1;                 // factor of the learning rate of each step
    std::optional<double> weight_decay;  // constant; nullopt: that of the other parameters
};

// plan/lr_schedule.hpp describes the schedules of the learning rate.
struct OptimizerSpec {
    double lr = 1e-3;
    double init_lr = 0;
    double min_lr = 0;
    std::int64_t warmup_steps = 0;
    double warmup_ratio = 0;       // warm-up as a share of all steps; 0: warmup_steps
    std::int64_t decay_steps = 0;  // end of the decay in steps; 0: train.steps
    LrSchedule schedule = LrSchedule::Cosine;
    std::int64_t wsd_decay_steps = 0;  // wsd: number of decaying steps at the end of decay_steps
    WsdDecay wsd_decay = WsdDecay::Exponential;
    double weight_decay = 0.1;
    // value at train.steps; differs from weight_decay only with a schedule
    double weight_decay_end = 0.1;
    WeightDecaySchedule weight_decay_schedule = WeightDecaySchedule::Constant;
    double clip_grad = 1.0;  // maximum norm of the gradient; 0: no clipping
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    // Pairs of a name pattern and whether matching parameters decay. The first pattern that matches
    // a name counts. Parameters without a match decay if they have 2 dimensions.
    std::vector<std::pair<std::string, bool>> decays;
    OptimizerKind kind = OptimizerKind::AdamW;
    double momentum = 0;    // SGD and Muon
    bool nesterov = false;  // SGD and Muon
    UpdateScale update_scale = UpdateScale::Original;
    int ns_steps = 5;                         // Muon's Newton-Schulz iterations
    std::vector<ParameterGroup> groups = {};  // the first group that matches a name counts
};

std::string_view name_of(OptimizerKind kind);

// Reads the kind, what only some kinds have, and the groups. Requires that optimizer_problems() is
// empty.
Result<void> read_update_rule(const Json& json, OptimizerSpec& optimizer);

// Returns a problem for each key of train.optimizer that the kind does not have, and for each group
// that says nothing or two things. Ignores wrong types, because the schema's checker reports them.
std::vector<Problem> optimizer_problems(const Json& document);

}  // namespace roll::spec
