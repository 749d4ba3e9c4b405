#include "worker/train/model/experts.hpp"

#include <algorithm>

#include <ATen/ATen.h>

#include "worker/train/ops/linear.hpp"
#include "worker/train/ops/swiglu.hpp"

namespace roll::train {
namespace {

// Returns `values` with row n multiplied by factor_N[n].
at::Tensor scaled_rows(const at::Tensor& values_NX, const at::Tensor& factor_N) {
    return (values_NX * factor_N.unsqueeze(1)).to(values_NX.scalar_type());
}

}  // namespace

// Returns the rows of all ranks.
at::Tensor Experts::all_rows(const at::Tensor& own_MC, Site site, bool repeats) const {
    if (!is_shared() || !rows.is_split()) return own_MC;
    return gather_rows(rows, own_MC, {site, layer, -1, repeats});
}

// Returns the sum over the ranks. With sequence parallelism, returns only this rank's rows.
at::Tensor Experts::summed(const at::Tensor& part_MC, Site site, bool repeats) const {
    if (!is_shared()) return part_MC;
    const Tag tag{site, layer, -1, repeats};
    if (rows.is_split()) return reduce_rows(rows, part_MC, tag);
    sum_over(*tp, part_MC, tag);
    return part_MC;
}

ExpertsSaved Experts::begin(const at::Tensor& h_MC) const {
    const at::Tensor all_MC = all_rows(h_MC, Site::ColumnRows, again);
    const at::ScalarType type = main_type(parameters);
    ExpertsSaved saved;
    saved.routing =
        ops::route(ops::linear(all_MC.to(type), parameters.weight[router].to(type)), rule);
    const ops::Routing& routing = saved.routing;
    saved.gate_up_NJ = at::empty({routing.choice_N.numel(), parameters.weight[gate_up(0)].size(0)},
                                 h_MC.options());
    for (std::int64_t e = 0; e < experts; ++e) {
        if (routing.count_of(e) == 0) continue;
        const at::Tensor x_NC = all_MC.index_select(0, routing.rows_of(e));
        ops::matmul(routing.part_of(e, saved.gate_up_NJ), x_NC, parameters.weight[gate_up(e)].t(),
                    /*beta=*/0);
    }
    return saved;
}

at::Tensor Experts::finish(const at::Tensor& past_MC, const ExpertsSaved& saved) const {
    const ops::Routing& routing = saved.routing;
    const at::Tensor out_NC =
        at::empty({routing.choice_N.numel(), past_MC.size(1)}, past_MC.options());
    for (std::int64_t e = 0; e < experts; ++e) {
        if (routing.count_of(e) == 0) continue;
        ops::SwigluSaved dropped;
        const at::Tensor a_NI = ops::swiglu(routing.part_of(e, saved.gate_up_NJ), dropped);
        ops::matmul(routing.part_of(e, out_NC), scaled_rows(a_NI, routing.weights_of(e)),
                    parameters.weight[down(e)].t(), /*beta=*/0);
    }
    const at::ScalarType type = main_type(parameters);
    if (!is_shared())
        return ops::combined(routing, past_MC.to(type), out_NC).to(past_MC.scalar_type());
    const at::Tensor zeros_MC =
        at::zeros({routing.rows(), past_MC.size(1)}, past_MC.options().dtype(type));
    const at::Tensor part_MC = ops::combined(routing, zeros_MC, out_NC).to(past_MC.scalar_type());
    return summed(part_MC, Site::RowOutput, again).add_(past_MC);
}

// Passes on the function that computes a weight's gradient. Without rows, the gradient is 0.
void Experts::owe(int weight, const at::Tensor& dy_MO, const at::Tensor& x_MI,
                  const Contribute& contribute) const {
    if (parameters.specs[static_cast<std::size_t>(weight)].frozen)
        return contribute(weight, [](const at::Tensor&, ops::Sum) {});
    contribute(weight, [dy_MO, x_MI](const at::Tensor& dw_OI, ops::Sum sum) {
        if (dy_MO.defined())
            ops::linear_backward_weight(dy_MO, x_MI, dw_OI, sum);
        else if (sum == ops::Sum::Replace)
            dw_OI.zero_();
    });
}

void Experts::expert_backward(std::int64_t e, const at::Tensor& dy_MC, const at::Tensor& h_MC,
                              const ExpertsSaved& saved, const Grads& grads,
                              const Contribute& contribute) const {
    const ops::Routing& routing = saved.routing;
    if (routing.count_of(e) == 0) {
        owe(down(e), {}, {}, contribute);
        return owe(gate_up(e), {}, {}, contribute);
    }
    const at::Tensor rows_N = routing.rows_of(e), weights_N = routing.weights_of(e);
    const at::Tensor dy_NC = dy_MC.index_select(0, rows_N);
    const at::Tensor dscaled_NI = ops::linear_backward_input(dy_NC, parameters.weight[down(e)]);
    const ops::SwigluSaved gates{routing.part_of(e, saved.gate_up_NJ)};
    at::Tensor a_NI;
    const at::Tensor dgate_up_NJ =
        ops::swiglu_backward(scaled_rows(dscaled_NI, weights_N), gates, a_NI);
    const at::ScalarType type = main_type(parameters);
    routing.part_of(e, grads.dweights_N).copy_((dscaled_NI.to(type) * a_NI).sum(1));
    owe(down(e), dy_NC, scaled_rows(a_NI, weights_N), contribute);
    ops::matmul(routing.part_of(e, grads.dx_NC), dgate_up_NJ, parameters.weight[gate_up(e)],
                /*beta=*/0);
    owe(gate_up(e), dgate_up_NJ, h_MC.index_select(0, rows_N), contribute);
}

at::Tensor Experts::backward(const at::Tensor& dy_MC, const at::Tensor& h_MC,
                             const ExpertsSaved& saved, double factor,
                             const Contribute& contribute) const {
    const ops::Routing& routing = saved.routing;
    const at::ScalarType type = main_type(parameters);
    const at::Tensor dall_MC = all_rows(dy_MC, Site::RowGrad, false);
    const at::Tensor all_MC = all_rows(h_MC, Site::ColumnRows, false);
    const std::int64_t choices = routing.choice_N.numel();
    const Grads grads{at::empty({choices, dy_MC.size(1)}, dy_MC.options()),
                      at::empty({choices}, routing.weights_MK.options())};
    for (std::int64_t e = experts; e-- > 0;)
        expert_backward(e, dall_MC, all_MC, saved, grads, contribute);
    // Each rank has a part of the weights' gradients. Only the first rank adds the gradient of the
    // balance loss, which is the same on all ranks.
    const bool is_first = !is_shared() || tp->rank() == 0;
    const at::Tensor dlogits_ME =
        ops::route_backward(routing, grads.dweights_N, is_first ? factor : 0);
    const at::Tensor dh_MC =
        ops::linear_backward_input(dlogits_ME, parameters.weight[router].to(type));
    owe(router, dlogits_ME, all_MC.to(type), contribute);
    return summed(ops::combined(routing, dh_MC, grads.dx_NC).to(dy_MC.scalar_type()),
                  Site::ColumnInput, false);
}

void Experts::count(const ExpertsSaved& saved, const Balance& balance) const {
    if (balance.loads == nullptr) return;
    const ops::Routing& routing = saved.routing;
    std::int64_t most = 0;
    for (std::int64_t e = 0; e < experts; ++e) most = std::max(most, routing.count_of(e));
    balance.loads->balance += balance.scale * ops::balance_loss(routing);
    balance.loads->fullest +=
        static_cast<double>(most * experts) / static_cast<double>(routing.choice_N.numel());
}

}  // namespace roll::train
