// One decoder layer over the operators: x + attention(norm(x)), then + mlp(norm(.)), with what the
// config adds to either. Stateless: what backward needs is in LayerSaved, and what the weight
// halves need is handed on in closures. What one pass over memory makes again (a norm's output, the
// activation) is not kept.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/ops/qk_norm.hpp"
#include "worker/train/ops/rms_norm.hpp"
#include "worker/train/ops/segments.hpp"
#include "worker/train/ops/swiglu.hpp"

namespace roll::train {

struct LayerSaved {
    ops::RmsNormSaved norm1;
    ops::QkNormSaved qk_norm;
    ops::SegmentsSaved attention;
    at::Tensor o_MA;
    ops::RmsNormSaved post_norm1;
    ops::RmsNormSaved norm2;
    ops::SwigluSaved gate_up;
    ops::RmsNormSaved post_norm2;
};

// Takes what backward contributes to a parameter's gradient: add() adds it.
using Contribute = std::function<void(int parameter, AddGrad add)>;

// The contribution of one micro-batch to a norm's gradient.
AddGrad add_norm_grad(const at::Tensor& part_C, const at::Tensor& dw_C);

// What a norm multiplies by.
at::Tensor norm_weight(const spec::ModelConfig& config, const at::Tensor& w_C);

struct Layer {
    const spec::ModelConfig& config;
    const Parameters& parameters;
    const LayerPlaces& places;
    const ops::RopeTable& table;
    std::int64_t index;                           // in the whole model
    int first;                                    // of the layer's parameters
    std::span<const std::int64_t> segments = {};  // of a micro-batch
    ops::Place kept = {};                         // where what forward saves lies

    // x_MC holds whole sequences of `positions` rows.
    at::Tensor forward(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& saved) const;

    // The two halves of forward, for whoever has an attention of their own between them: o_MA is
    // its result.
    ops::Heads project(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& saved) const;
    at::Tensor finish(const at::Tensor& x_MC, const at::Tensor& o_MA, LayerSaved& saved) const;
    ops::AttentionRule rule() const;

    // Returns dx_MC. The norms' gradients, which come with it, go to `input`; the weight halves to
    // `weight`, which may run them at once or keep them. Uses up what was saved.
    at::Tensor backward_input(const at::Tensor& dy_MC, LayerSaved& saved, const Contribute& input,
                              const Contribute& weight) const;

  private:
    at::Tensor weight(int place) const;
    at::Tensor norm(int place, const at::Tensor& x_MC, ops::RmsNormSaved& saved) const;
    at::Tensor norm_again(int place, const ops::RmsNormSaved& saved) const;
    at::Tensor norm_backward(int place, const at::Tensor& dy_MC, ops::RmsNormSaved& saved,
                             const at::Tensor& dresidual_MC, const Contribute& input) const;
    void owe(int place, const at::Tensor& dy_MO, const at::Tensor& x_MI,
             const Contribute& weight) const;
    void owe_bias(int place, const at::Tensor& dy_MO, const Contribute& weight) const;
    at::Tensor activation_backward(const at::Tensor& ddown_MC, LayerSaved& saved,
                                   const Contribute& weight) const;
    at::Tensor mlp_backward(const at::Tensor& dy_MC, LayerSaved& saved, const Contribute& input,
                            const Contribute& weight) const;
    at::Tensor qk_norm_backward(const at::Tensor& dy_MP, LayerSaved& saved,
                                const Contribute& input) const;
};

}  // namespace roll::train
