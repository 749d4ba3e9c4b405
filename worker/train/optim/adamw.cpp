#include "worker/train/optim/adamw.hpp"

#include <ATen/ATen.h>

namespace roll::train {

AdamW::AdamW(const Parameters& p, const AdamWOptions& options) : options_(options), parameters_(p) {
    state_.flat_average = at::zeros_like(p.flat_weight);
    state_.flat_square = at::zeros_like(p.flat_weight);
    state_.average = views_like(p, state_.flat_average);
    state_.square = views_like(p, state_.flat_square);
}

void AdamW::step(double lr, double grad_scale) {
    state_.steps += 1;
    const at::Tensor steps = at::full({}, static_cast<double>(state_.steps), at::kFloat);
    for (std::size_t i = 0; i < parameters_.specs.size(); ++i) {
        const double decay = parameters_.specs[i].sizes.size() > 1 ? options_.weight_decay : 0;
        if (grad_scale != 1) parameters_.grad[i].mul_(grad_scale);
        at::_fused_adamw_({parameters_.weight[i]}, {parameters_.grad[i]}, {state_.average[i]},
                          {state_.square[i]}, {}, {steps}, lr, options_.beta1, options_.beta2,
                          decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
    }
}

at::Tensor grad_square_sum(const Parameters& parameters) {
    const at::Tensor norm = at::linalg_vector_norm(parameters.flat_grad, 2,
                                                   at::OptionalIntArrayRef{}, false, at::kDouble);
    return norm.square();
}

}  // namespace roll::train
