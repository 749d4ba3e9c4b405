#include "worker/plan/lr_schedule.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace roll::plan {
namespace {

// Returns half a cosine wave: 1 at ratio 0, 0 at ratio 1.
double falling_cosine(double ratio) { return 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0); }

double wsd_share(spec::WsdDecay decay, double ratio) {
    switch (decay) {
        case spec::WsdDecay::Linear: return 1.0 - ratio;
        case spec::WsdDecay::Cosine: return falling_cosine(ratio);
        case spec::WsdDecay::Exponential: return 2.0 * std::pow(0.5, ratio) - 1.0;
        case spec::WsdDecay::MinusSqrt: return 1.0 - std::sqrt(ratio);
    }
    return 0;
}

// Returns (rate - min_lr) / (lr - min_lr) after `done` updates. Requires that the warm-up is over.
double share_left(const spec::OptimizerSpec& spec, double decay_steps, double done) {
    const auto warmup = static_cast<double>(spec.warmup_steps);
    const double ratio = (done - warmup) / (decay_steps - warmup);
    if (spec.schedule == spec::LrSchedule::Linear) return 1.0 - ratio;
    if (spec.schedule == spec::LrSchedule::Cosine) return falling_cosine(ratio);
    const auto wsd_steps = static_cast<double>(spec.wsd_decay_steps);
    const double begin = decay_steps - wsd_steps;
    return done <= begin ? 1.0 : wsd_share(spec.wsd_decay, (done - begin) / wsd_steps);
}

}  // namespace

double learning_rate(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates) {
    if (spec.adafactor.relative_step) {
        const auto update = static_cast<double>(updates + 1);
        const double most = spec.adafactor.warmup_init ? 1e-6 * update : 1e-2;
        return std::min(most, 1 / std::sqrt(update));
    }
    const std::int64_t decay_steps = spec.decay_steps > 0 ? spec.decay_steps : steps;
    const auto done = static_cast<double>(updates), warmup = static_cast<double>(spec.warmup_steps);
    if (spec.warmup_steps > 0 && updates <= spec.warmup_steps)
        return spec.init_lr + (spec.lr - spec.init_lr) * done / warmup;
    if (spec.schedule == spec::LrSchedule::Constant) return spec.lr;
    if (updates > decay_steps) return spec.min_lr;
    if (spec.schedule == spec::LrSchedule::InverseSquareRoot) {
        const double slope = std::pow(std::max(warmup, 1.0), 0.5);
        return std::max(spec.min_lr, spec.lr * slope / std::pow(std::max(done, 1.0), 0.5));
    }
    const double share = share_left(spec, static_cast<double>(decay_steps), done);
    return spec.min_lr + share * (spec.lr - spec.min_lr);
}

double weight_decay(const spec::OptimizerSpec& spec, std::int64_t steps, std::int64_t updates) {
    if (spec.weight_decay_schedule == spec::WeightDecaySchedule::Constant) return spec.weight_decay;
    if (updates > steps) return spec.weight_decay_end;
    const double ratio = static_cast<double>(updates) / static_cast<double>(steps);
    const bool linear = spec.weight_decay_schedule == spec::WeightDecaySchedule::Linear;
    const double share = linear ? ratio : falling_cosine(1 - ratio);
    return spec.weight_decay + share * (spec.weight_decay_end - spec.weight_decay);
}

}  // namespace roll::plan
