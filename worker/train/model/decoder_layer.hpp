// One llama layer over the operators: x + attention(norm(x)), then + mlp(norm(.)). Stateless: what
// backward needs is in LayerSaved, and what the weight halves need is handed on in closures.
#pragma once

#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/ops/rms_norm.hpp"
#include "worker/train/ops/segments.hpp"
#include "worker/train/ops/swiglu.hpp"

namespace roll::train {

struct LayerSaved {
    ops::RmsNormSaved norm1;
    at::Tensor h1_MC;
    ops::SegmentsSaved attention;
    at::Tensor o_MA;
    ops::RmsNormSaved norm2;
    at::Tensor h2_MC;
    ops::SwigluSaved swiglu;
    at::Tensor a_MI;
};

// Takes what backward contributes to a parameter's gradient: add() adds it.
using Contribute = std::function<void(int parameter, AddGrad add)>;

// The contribution of one micro-batch to a norm's gradient.
AddGrad add_norm_grad(const at::Tensor& part_C, const at::Tensor& dw_C);

struct Layer {
    const spec::ModelConfig& config;
    const Parameters& parameters;
    const ops::RopeTable& table;
    int first;                                    // of the layer's parameters
    std::span<const std::int64_t> segments = {};  // of a micro-batch

    // x_MC holds whole sequences of `positions` rows.
    at::Tensor forward(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& saved) const;

    // Returns dx_MC. The norms' gradients, which come with it, go to `input`; the weight halves to
    // `weight`, which may run them at once or keep them. Uses up what was saved.
    at::Tensor backward_input(const at::Tensor& dy_MC, LayerSaved& saved, const Contribute& input,
                              const Contribute& weight) const;

  private:
    void owe(int parameter, const at::Tensor& dy_MO, const at::Tensor& x_MI,
             const Contribute& weight) const;
    at::Tensor norm_backward(int parameter, const at::Tensor& dy_MC, const ops::RmsNormSaved& saved,
                             const at::Tensor& dresidual_MC, const Contribute& input) const;
};

}  // namespace roll::train
