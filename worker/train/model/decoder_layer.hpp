// One llama layer over the operators: x + ops::attention(norm(x)), then + mlp(norm(.)). Stateless:
// what backward needs is in LayerSaved, and what the weight half needs is handed on as a list of
// products.
#pragma once

#include "worker/train/model/parameters.hpp"
#include "worker/train/ops/attention.hpp"
#include "worker/train/ops/rms_norm.hpp"
#include "worker/train/ops/swiglu.hpp"

namespace roll::train {

struct LayerSaved {
    ops::RmsNormSaved norm1;
    at::Tensor h1_MC;
    ops::AttentionSaved attention;
    at::Tensor o_MA;
    ops::RmsNormSaved norm2;
    at::Tensor h2_MC;
    ops::SwigluSaved swiglu;
    at::Tensor a_MI;
};

// A weight half that is still owed: grad[parameter] += dy^T x.
struct WeightHalf {
    int parameter;
    at::Tensor dy_MO;
    at::Tensor x_MI;
};

struct Layer {
    const spec::ModelConfig& config;
    const Parameters& parameters;
    const ops::RopeTable& table;
    int first;  // of the layer's parameters

    // x_MC holds whole sequences of `positions` rows.
    at::Tensor forward(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& saved) const;

    // Returns dx_MC; appends the weight halves that are owed, in the order of backward.
    at::Tensor backward_input(const at::Tensor& dy_MC, const LayerSaved& saved,
                              std::vector<WeightHalf>& owed, const GradReady& ready) const;
};

}  // namespace roll::train
