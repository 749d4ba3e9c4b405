#include "worker/plan/lr_schedule.hpp"

#include <cmath>
#include <numbers>

namespace roll::plan {

double learning_rate(const spec::OptimizerSpec& spec, std::int64_t decay_steps,
                     std::int64_t updates) {
    const auto done = static_cast<double>(updates), warmup = static_cast<double>(spec.warmup_steps);
    if (spec.warmup_steps > 0 && updates <= spec.warmup_steps) return spec.lr * done / warmup;
    switch (spec.schedule) {
        case spec::LrSchedule::Constant: return spec.lr;
        case spec::LrSchedule::Cosine: break;
    }
    if (updates > decay_steps) return spec.min_lr;
    const double ratio = (done - warmup) / (static_cast<double>(decay_steps) - warmup);
    const double share = 0.5 * (std::cos(std::numbers::pi * ratio) + 1.0);
    return spec.min_lr + share * (spec.lr - spec.min_lr);
}

}  // namespace roll::plan
