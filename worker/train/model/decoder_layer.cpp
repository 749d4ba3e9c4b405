#include "worker/train/model/decoder_layer.hpp"

#include <utility>

#include <ATen/ATen.h>

#include "worker/train/ops/linear.hpp"

namespace roll::train {

at::Tensor Layer::forward(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& s) const {
    const at::Tensor* w = &parameters.weight[first];
    s.h1_MC = ops::rms_norm(x_MC, w[kNorm1], config.norm_eps, s.norm1);
    const at::Tensor qkv_MP = ops::linear(s.h1_MC, w[kQkv]);
    const ops::Heads heads =
        ops::rope(qkv_MP.view({-1, positions, qkv_MP.size(1)}), config.kv_heads, table);
    s.o_MA = ops::attention_within(heads, {}, segments, s.attention).flatten(0, 1);
    const at::Tensor x1_MC = ops::linear_add(x_MC, s.o_MA, w[kOut]);
    s.h2_MC = ops::rms_norm(x1_MC, w[kNorm2], config.norm_eps, s.norm2);
    s.a_MI = ops::swiglu(ops::linear(s.h2_MC, w[kGateUp]), s.swiglu);
    return ops::linear_add(x1_MC, s.a_MI, w[kDown]);
}

AddGrad add_norm_grad(const at::Tensor& part_C, const at::Tensor& dw_C) {
    return [part_C, dw_C](ops::Sum sum) {
        sum == ops::Sum::Add ? dw_C.add_(part_C) : dw_C.copy_(part_C);
    };
}

void Layer::owe(int parameter, const at::Tensor& dy_MO, const at::Tensor& x_MI,
                const Contribute& weight) const {
    weight(first + parameter,
           [dy_MO, x_MI, dw_OI = parameters.grad[first + parameter]](ops::Sum sum) {
               ops::linear_backward_weight(dy_MO, x_MI, dw_OI, sum);
           });
}

at::Tensor Layer::norm_backward(int parameter, const at::Tensor& dy_MC,
                                const ops::RmsNormSaved& saved, const at::Tensor& dresidual_MC,
                                const Contribute& input) const {
    const at::Tensor& w_C = parameters.weight[first + parameter];
    const at::Tensor part_C = at::empty_like(w_C);
    at::Tensor dx_MC = ops::rms_norm_backward(dy_MC, w_C, saved, dresidual_MC, part_C);
    input(first + parameter, add_norm_grad(part_C, parameters.grad[first + parameter]));
    return dx_MC;
}

at::Tensor Layer::backward_input(const at::Tensor& dy_MC, LayerSaved& s, const Contribute& input,
                                 const Contribute& weight) const {
    const at::Tensor* w = &parameters.weight[first];
    owe(kDown, dy_MC, std::exchange(s.a_MI, {}), weight);
    const at::Tensor da_MI = ops::linear_backward_input(dy_MC, w[kDown]);
    const at::Tensor dgate_up_MJ = ops::swiglu_backward(da_MI, std::exchange(s.swiglu, {}));
    owe(kGateUp, dgate_up_MJ, std::exchange(s.h2_MC, {}), weight);
    const at::Tensor dh2_MC = ops::linear_backward_input(dgate_up_MJ, w[kGateUp]);
    const at::Tensor dx1_MC =
        norm_backward(kNorm2, dh2_MC, std::exchange(s.norm2, {}), dy_MC, input);
    owe(kOut, dx1_MC, std::exchange(s.o_MA, {}), weight);
    const at::Tensor do_MA = ops::linear_backward_input(dx1_MC, w[kOut]);
    const ops::Heads dheads = ops::attention_within_backward(do_MA, std::exchange(s.attention, {}));
    const at::Tensor dqkv_MP = ops::rope_backward(dheads, table).flatten(0, 1);
    owe(kQkv, dqkv_MP, std::exchange(s.h1_MC, {}), weight);
    const at::Tensor dh1_MC = ops::linear_backward_input(dqkv_MP, w[kQkv]);
    return norm_backward(kNorm1, dh1_MC, std::exchange(s.norm1, {}), dx1_MC, input);
}

}  // namespace roll::train
