// One decoder layer: x1 = x + attention(norm(x)), then y = x1 + mlp(norm(x1)), with the optional
// norms and biases of the config. The layer itself keeps no state: the values that backward needs
// are in LayerSaved. If gradients of weights are computed later, the functions that compute them
// hold the necessary inputs. Values that one pass over memory can recompute (a norm's output, the
// activation) are not saved.
//
// Layer::recompute says which other values are not saved. forward() drops these values. restore()
// recomputes them before backward, with the same kernels and the same input, so they have the same
// bits.
#pragma once

#include <cstdint>
#include <span>

#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/model/context.hpp"
#include "worker/train/model/experts.hpp"
#include "worker/train/model/linear.hpp"
#include "worker/train/model/parameters.hpp"
#include "worker/train/ops/attention.hpp"
#include "worker/train/ops/qk_norm.hpp"
#include "worker/train/ops/rms_norm.hpp"
#include "worker/train/ops/swiglu.hpp"

namespace roll::train {

struct LayerSaved {
    ops::RmsNormSaved norm1;
    ops::QkNormSaved qk_norm;
    ops::PiecesSaved attention;
    at::Tensor o_MA;
    ops::RmsNormSaved post_norm1;
    ops::RmsNormSaved norm2;
    ops::SwigluSaved gate_up;
    ExpertsSaved experts;  // in place of gate_up
    ops::RmsNormSaved post_norm2;
    bool is_dropped = false;  // true: restore() must run before backward
};

// Returns a function that adds `part_C`, one micro-batch's contribution, to a norm's gradient.
AddGrad add_norm_grad(const at::Tensor& part_C);

// Returns the factor of a norm: w or, if the config says so, 1 + w.
at::Tensor norm_weight(const spec::ModelConfig& config, const at::Tensor& w_C);

struct Layer {
    const spec::ModelConfig& config;
    const Parameters& parameters;
    const LayerPlaces& places;
    const ops::RopeTable& table;
    std::int64_t index;                       // index of the layer in the whole model
    int first;                                // index of the layer's first parameter in the chunk
    std::span<const ops::Piece> pieces = {};  // the attention of the rows (SequenceRows::pieces)
    ops::Place kept = {};                     // allocates the tensors of saved activations
    Communicator* tp = nullptr;               // the tensor-parallel group; null: none
    RowSplit rows = {};  // x_MC, dy_MC and the results have only this rank's rows
    const ContextGroup* context = nullptr;  // the exchange of keys and values; null: none
    plan::LayerRecompute recompute = {};
    // true: backward recomputes this layer's forward pass; no values are dropped
    bool again = false;
    // Dropout of the input of the LoRA factors. Each linear layer sets first_column and columns
    Dropout dropout = {};
    RowLengths* lengths = nullptr;  // row lengths for DoRA (linear.hpp)
    Balance balance = {};           // how the micro-batch counts in the balance loss

    // Returns the layer's output. Requires that the rows are whole sequences of `positions` rows.
    at::Tensor forward(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& saved) const;

    // Compute the two parts of forward, before and after attention, for a caller with its own
    // attention. o_MA is the result of the caller's attention.
    ops::Heads project(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& saved) const;
    at::Tensor finish(const at::Tensor& x_MC, const at::Tensor& o_MA, LayerSaved& saved) const;
    ops::AttentionRule rule() const;

    // Recomputes the values in `saved` that forward() dropped. saved.norm1.x_MC must be the layer's
    // input.
    void restore(std::int64_t positions, LayerSaved& saved) const;

    // Returns dx_MC, the gradient of the layer's input. Passes to `input` the functions that add
    // the norms' gradients. Passes to `weight` the functions that compute the weights' gradients;
    // `weight` may call them now or later. Consumes `saved`.
    at::Tensor backward_input(const at::Tensor& dy_MC, LayerSaved& saved, const Contribute& input,
                              const Contribute& weight) const;

    // Sets the magnitudes of DoRA to the lengths of the weights' rows.
    void start_magnitudes() const;

  private:
    at::Tensor weight(int place) const;
    // Returns the allocator for a value that forward saves. If the value will be dropped, returns
    // an empty function.
    ops::Place kept_unless(bool dropped) const { return dropped ? ops::Place() : kept; }
    bool splits_context() const { return context != nullptr && context->is_split(); }
    at::Tensor attend(const ops::Heads& heads, LayerSaved& saved) const;
    ops::Heads attention_backward(const at::Tensor& do_MA, LayerSaved& saved) const;
    at::Tensor add_attention(const at::Tensor& x_MC, const at::Tensor& o_MA,
                             LayerSaved& saved) const;
    at::Tensor add_product(const at::Tensor& past_MC, const at::Tensor& in_MX, const Linear& matrix,
                           int post_norm, ops::RmsNormSaved& saved, const ops::Place& place) const;
    at::Tensor add_mlp(const at::Tensor& x1_MC, LayerSaved& saved) const;
    void begin_mlp(const at::Tensor& h2_MC, LayerSaved& saved, const ops::Place& place) const;
    Experts experts() const;
    void drop(LayerSaved& saved) const;
    Dropout dropout_of(int weight, families::Split split) const;
    Linear linear(int weight, int bias, families::Split split,
                  std::initializer_list<spec::LoraPlace> lora) const;
    Linear qkv() const;
    Linear out() const;
    Linear gate_up() const;
    Linear down() const;
    // Returns the number of key-value heads of this rank.
    std::int64_t kv_heads() const { return config.kv_heads / (tp == nullptr ? 1 : tp->size()); }
    at::Tensor norm(int place, const at::Tensor& x_MC, ops::RmsNormSaved& saved) const;
    at::Tensor norm_again(int place, const ops::RmsNormSaved& saved) const;
    at::Tensor norm_backward(int place, const at::Tensor& dy_MC, ops::RmsNormSaved& saved,
                             const at::Tensor& dresidual_MC, const Contribute& input) const;
    at::Tensor activation_backward(const at::Tensor& ddown_MC, LayerSaved& saved,
                                   const Contribute& weight) const;
    at::Tensor mlp_backward(const at::Tensor& dy_MC, LayerSaved& saved, const Contribute& input,
                            const Contribute& weight) const;
    at::Tensor qk_norm_backward(const at::Tensor& dy_MP, LayerSaved& saved,
                                const Contribute& input) const;
};

}  // namespace roll::train
