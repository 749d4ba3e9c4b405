#include "worker/train/ops/router.hpp"

#include <ATen/ATen.h>

namespace roll::ops {
namespace {

// Returns, for each expert, the share of the rows that chose the expert, divided by K and times E.
// If all experts have equally many rows, all elements are 1.
at::Tensor loads_of(const Routing& r) {
    const at::Tensor load_E = at::empty({r.experts()}, at::kDouble);
    for (std::int64_t e = 0; e < r.experts(); ++e)
        load_E[e] = static_cast<double>(r.count_of(e) * r.experts()) /
                    static_cast<double>(r.rows() * r.rule.choices);
    return load_E.to(r.probs_ME.options());
}

}  // namespace

at::Tensor Routing::rows_of(std::int64_t expert) const {
    return part_of(expert, choice_N).div(rule.choices, "floor");
}

at::Tensor Routing::weights_of(std::int64_t expert) const {
    return weights_MK.flatten().index_select(0, part_of(expert, choice_N));
}

Routing route(const at::Tensor& logits_ME, const RouterRule& rule) {
    Routing r{.rule = rule, .probs_ME = logits_ME.softmax(1)};
    const auto [probs, experts] = r.probs_ME.sort(/*stable=*/true, /*dim=*/1, /*descending=*/true);
    r.experts_MK = experts.narrow(1, 0, rule.choices).contiguous();
    r.weights_MK = probs.narrow(1, 0, rule.choices).contiguous();
    if (rule.normalizes) r.weights_MK.div_(r.weights_MK.sum(1, /*keepdim=*/true));
    const auto [sorted, choices] =
        r.experts_MK.flatten().sort(/*stable=*/true, /*dim=*/0, /*descending=*/false);
    r.choice_N = choices;
    r.place_MK = at::empty_like(choices);
    r.place_MK.index_copy_(0, choices, at::arange(choices.numel(), choices.options()));
    r.place_MK = r.place_MK.view_as(r.experts_MK);
    const at::Tensor begin_E =
        at::searchsorted(sorted, at::arange(r.experts(), sorted.options())).cpu();
    const auto* const first = begin_E.const_data_ptr<std::int64_t>();
    r.begin.assign(first, first + r.experts());
    r.begin.push_back(choices.numel());
    return r;
}

at::Tensor combined(const Routing& r, const at::Tensor& start_MC, const at::Tensor& out_NC) {
    at::Tensor sum_MC = start_MC.clone();
    for (std::int64_t k = 0; k < r.rule.choices; ++k)
        sum_MC.add_(out_NC.index_select(0, r.place_MK.select(1, k)));
    return sum_MC;
}

double balance_loss(const Routing& r) { return r.probs_ME.mean(0).dot(loads_of(r)).item<double>(); }

at::Tensor route_backward(const Routing& r, const at::Tensor& dweights_N, double balance) {
    at::Tensor dchosen_MK = dweights_N.index_select(0, r.place_MK.flatten()).view_as(r.weights_MK);
    if (r.rule.normalizes) {
        const at::Tensor sum_M1 = r.probs_ME.gather(1, r.experts_MK).sum(1, /*keepdim=*/true);
        dchosen_MK = (dchosen_MK - (dchosen_MK * r.weights_MK).sum(1, true)) / sum_M1;
    }
    at::Tensor dprobs_ME = at::zeros_like(r.probs_ME).scatter_(1, r.experts_MK, dchosen_MK);
    if (balance != 0) dprobs_ME.add_(loads_of(r), balance / static_cast<double>(r.rows()));
    return r.probs_ME * (dprobs_ME - (dprobs_ME * r.probs_ME).sum(1, /*keepdim=*/true));
}

}  // namespace roll::ops
