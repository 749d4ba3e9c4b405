// The results of a training step and of an evaluation.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "worker/train/objective/preference.hpp"

namespace roll::train {

// Norms of a layer's trained parameters. `grad` is before clipping, `weight` before the update.
struct LayerNorms {
    std::string name;
    double grad = 0, weight = 0, update = 0;
};

// The highest loss and gradient norm with which a step may update the weights. Both are the same on
// all ranks, so all ranks decide alike.
struct StepLimits {
    double loss = std::numeric_limits<double>::infinity();
    double grad_norm = std::numeric_limits<double>::infinity();
};

// The value that exceeded its limit in StepLimits; Loss if both values exceeded their limits.
enum class TooHigh { None, Loss, GradNorm };

// Means over the layers with experts and over the micro-batches. `loss`: the balance loss, without
// its factor. `fullest`: the rows of the fullest expert / the mean over the experts.
struct ExpertBalance {
    double loss = 0, fullest = 0;
};

struct StepResult {
    double loss = 0;  // the value to minimize: the mean loss over all micro-batches and replicas
    double own_loss = 0;     // this replica's part of `loss`, before the sum over the replicas
    double grad_norm = 0;    // global norm of the gradient before clipping
    double lr = 0;           // learning rate of the step
    double loss_scale = 1;   // factor of the loss in backward
    double clip_factor = 1;  // factor by which clipping scaled the gradient
    // Number of zeros in the gradient; nullopt if not counted
    std::optional<std::int64_t> grad_zeros = std::nullopt;
    std::int64_t tokens = 0;  // number of targets that count in the loss, over all replicas
    // false: the loss or the norm is not finite or too high, or no target counts; the weights are
    // then unchanged
    bool updated = false;
    TooHigh too_high = TooHigh::None;  // set only if the loss and the norm are finite
    // false: replicas have computed different gradient norms from the same sums; the weights are
    // then unchanged, and all ranks have this result
    bool replicas_agree = true;
    // sums over all replicas; set only if the job trains with a preference objective (such as DPO)
    std::optional<PairSums> pairs = std::nullopt;
    // mean divergence from the teacher (ops/teacher.hpp), with the weights of the loss; set only if
    // the job trains with a teacher
    std::optional<double> divergence = std::nullopt;
    // set only if the model has experts
    std::optional<ExpertBalance> experts = std::nullopt;
    // `reduced`: number of gradient elements whose sum over the replicas this rank has started.
    // `reduced_early`: number of these elements whose sum started before backward was complete.
    std::int64_t reduced = 0, reduced_early = 0;
    // norms of the layers; set only if run() was asked to measure them and has updated the weights
    std::vector<LayerNorms> layers = {};
    // numbers that run() was asked to gather, [ranks, numbers], in the order of the job's ranks
    at::Tensor extra_RN = {};
};

// `sum`: log p of an answer minus its log p under the reference model, summed over the mismatched
// answers. `answers`: the number of these answers.
struct KlSum {
    double sum = 0, answers = 0;

    // Returns the estimate of the divergence, which is at least 0.
    double kl() const { return answers > 0 ? std::max(0.0, sum / answers) : 0; }
};

struct LossSum {
    double loss = 0;  // sum of -log p(target) over all targets that count, without a factor
    std::int64_t tokens = 0;
    // set only if the job trains with a preference objective (such as DPO); `loss` is then 0
    std::optional<PairSums> pairs = std::nullopt;
    // sum over the targets; set only if the job trains with a teacher
    std::optional<double> divergence = std::nullopt;
};

}  // namespace roll::train
