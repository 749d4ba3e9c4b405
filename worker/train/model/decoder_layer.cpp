#include "worker/train/model/decoder_layer.hpp"

#include <ATen/ATen.h>

#include "worker/train/ops/linear.hpp"

namespace roll::train {

at::Tensor Layer::forward(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& s) const {
    const at::Tensor* w = &parameters.weight[first];
    s.h1_MC = ops::rms_norm(x_MC, w[kNorm1], config.norm_eps, s.norm1);
    const at::Tensor qkv_MP = ops::linear(s.h1_MC, w[kQkv]);
    const ops::Heads heads =
        ops::rope(qkv_MP.view({-1, positions, qkv_MP.size(1)}), config.kv_heads, table);
    s.o_MA = ops::attention(heads, s.attention).flatten(0, 1);
    const at::Tensor x1_MC = ops::linear_add(x_MC, s.o_MA, w[kOut]);
    s.h2_MC = ops::rms_norm(x1_MC, w[kNorm2], config.norm_eps, s.norm2);
    s.a_MI = ops::swiglu(ops::linear(s.h2_MC, w[kGateUp]), s.swiglu);
    return ops::linear_add(x1_MC, s.a_MI, w[kDown]);
}

at::Tensor Layer::backward_input(const at::Tensor& dy_MC, const LayerSaved& s,
                                 std::vector<WeightHalf>& owed, const GradReady& ready) const {
    const at::Tensor *w = &parameters.weight[first], *dw = &parameters.grad[first];
    owed.push_back({first + kDown, dy_MC, s.a_MI});
    const at::Tensor da_MI = ops::linear_backward_input(dy_MC, w[kDown]);
    const at::Tensor dgate_up_MJ = ops::swiglu_backward(da_MI, s.swiglu);
    owed.push_back({first + kGateUp, dgate_up_MJ, s.h2_MC});
    const at::Tensor dh2_MC = ops::linear_backward_input(dgate_up_MJ, w[kGateUp]);
    const at::Tensor dx1_MC = ops::rms_norm_backward(dh2_MC, w[kNorm2], s.norm2, dy_MC, dw[kNorm2]);
    ready(first + kNorm2);
    owed.push_back({first + kOut, dx1_MC, s.o_MA});
    const at::Tensor do_MA = ops::linear_backward_input(dx1_MC, w[kOut]);
    const ops::Heads dheads = ops::attention_backward(do_MA, s.attention);
    const at::Tensor dqkv_MP = ops::rope_backward(dheads, table).flatten(0, 1);
    owed.push_back({first + kQkv, dqkv_MP, s.h1_MC});
    const at::Tensor dh1_MC = ops::linear_backward_input(dqkv_MP, w[kQkv]);
    at::Tensor dx_MC = ops::rms_norm_backward(dh1_MC, w[kNorm1], s.norm1, dx1_MC, dw[kNorm1]);
    ready(first + kNorm1);
    return dx_MC;
}

}  // namespace roll::train
