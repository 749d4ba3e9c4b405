#include "worker/train/model/decoder_layer.hpp"

#include <utility>

#include <ATen/ATen.h>

#include "worker/train/ops/kernel.hpp"
#include "worker/train/ops/rope.hpp"
#include "worker/train/ops/swiglu.hpp"

namespace roll::train {

AddGrad add_norm_grad(const at::Tensor& part_C) {
    return [part_C](const at::Tensor& dw_C, ops::Sum sum) {
        sum == ops::Sum::Add ? dw_C.add_(part_C) : dw_C.copy_(part_C);
    };
}

at::Tensor norm_weight(const spec::ModelConfig& config, const at::Tensor& w_C) {
    return config.norm_adds_one ? ops::wide(w_C) + 1 : w_C;
}

at::Tensor Layer::weight(int place) const {
    return place < 0 ? at::Tensor() : parameters.weight[static_cast<std::size_t>(first + place)];
}

Linear Layer::linear(int weight, int bias, families::Split split,
                     std::initializer_list<spec::LoraPlace> lora) const {
    return {parameters,
            first + weight,
            bias < 0 ? -1 : first + bias,
            split,
            tp,
            static_cast<int>(index),
            rows,
            {lora_parts(config, places, index, first, tp == nullptr ? 1 : tp->size(), lora),
             dropout_of(weight, split)},
            again,
            lengths};
}

// Returns the dropout for the input of a linear layer.
Dropout Layer::dropout_of(int weight, families::Split split) const {
    Dropout own = dropout;
    own.layer = index;
    own.columns = parameters.specs[static_cast<std::size_t>(first + weight)].sizes[1];
    if (split != families::Split::Row || tp == nullptr) return own;
    own.first_column = tp->rank() * own.columns;
    own.columns *= tp->size();
    return own;
}

Linear Layer::qkv() const {
    using enum spec::LoraPlace;
    return linear(places.qkv, places.qkv_bias, families::Split::Column, {Q, K, V});
}

Linear Layer::out() const {
    return linear(places.out, places.out_bias, families::Split::Row, {spec::LoraPlace::Out});
}

Linear Layer::gate_up() const {
    using enum spec::LoraPlace;
    return linear(places.gate_up, -1, families::Split::Column, {Gate, Up});
}

Linear Layer::down() const {
    return linear(places.down, -1, families::Split::Row, {spec::LoraPlace::Down});
}

void Layer::start_magnitudes() const {
    for (const Linear& one : {qkv(), out(), gate_up(), down()})
        if (one.adapter.is_dora()) set_magnitudes(parameters, one.adapter, one.length_O());
}

at::Tensor Layer::norm(int place, const at::Tensor& x_MC, ops::RmsNormSaved& saved) const {
    return ops::rms_norm(x_MC, norm_weight(config, weight(place)), config.norm_eps, saved);
}

ops::AttentionRule Layer::rule() const {
    return {config.attention_scale, config.attention_soft_cap, config.window_of(index)};
}

at::Tensor Layer::forward(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& s) const {
    at::Tensor y_MC = finish(x_MC, attend(project(x_MC, positions, s), s), s);
    if (!again) drop(s);
    return y_MC;
}

// Returns o_MA, the attention output. With context parallelism, saves only this rank's heads, so
// that no rank holds the keys and values of all ranks for several layers at once.
at::Tensor Layer::attend(const ops::Heads& heads, LayerSaved& s) const {
    const Tag tag{Site::ContextKeys, static_cast<int>(index), -1, again};
    const ops::Heads all = splits_context() ? gather_keys(*context, heads, tag) : heads;
    at::Tensor o_MA =
        ops::attention_within(all, rule(), pieces, s.attention, kept_unless(recompute.attention()))
            .flatten(0, 1);
    if (!splits_context()) return o_MA;
    for (ops::AttentionSaved& part : s.attention.parts) part.heads = {};
    s.attention.heads = heads;
    return o_MA;
}

// Returns the gradients of this rank's heads.
ops::Heads Layer::attention_backward(const at::Tensor& do_MA, LayerSaved& s) const {
    ops::PiecesSaved saved = std::exchange(s.attention, {});
    if (!splits_context()) return ops::attention_within_backward(do_MA, std::move(saved));
    const int layer = static_cast<int>(index);
    const ops::Heads own = std::exchange(saved.heads, {});
    const ops::Heads all = gather_keys(*context, own, {Site::ContextKeys, layer, -1, true});
    const ops::Heads d = ops::attention_within_backward(do_MA, std::move(saved), all);
    return reduce_keys(*context, d, {Site::ContextGrads, layer});
}

// Frees the values that `recompute` lists.
void Layer::drop(LayerSaved& s) const {
    if (!recompute.any()) return;
    LayerSaved kept_values;
    kept_values.is_dropped = true;
    if (recompute.keeps_input) kept_values.norm1 = std::move(s.norm1);
    if (!recompute.full()) {
        kept_values.post_norm1 = std::move(s.post_norm1);
        kept_values.norm2 = std::move(s.norm2);
        kept_values.post_norm2 = std::move(s.post_norm2);
        if (!recompute.mlp()) {
            kept_values.gate_up = std::move(s.gate_up);
            kept_values.experts = std::move(s.experts);
        }
        if (!recompute.attention()) {
            kept_values.qk_norm = std::move(s.qk_norm);
            kept_values.attention = std::move(s.attention);
            kept_values.o_MA = std::move(s.o_MA);
        }
    }
    s = std::move(kept_values);
}

void Layer::restore(std::int64_t positions, LayerSaved& s) const {
    const at::Tensor x_MC = s.norm1.x_MC;
    if (recompute.attention()) s.o_MA = attend(project(x_MC, positions, s), s);
    if (recompute.full()) {
        const at::Tensor x1_MC = add_attention(x_MC, s.o_MA, s);
        begin_mlp(norm(places.norm2, x1_MC, s.norm2), s, {});
        // Backward needs the output of the MLP's last matrix product only if a norm follows this
        // product.
        if (places.post_norm2 >= 0) add_mlp(x1_MC, s);
    } else if (recompute.mlp()) {
        begin_mlp(norm_again(places.norm2, s.norm2), s, {});
    }
    s.is_dropped = false;
}

ops::Heads Layer::project(const at::Tensor& x_MC, std::int64_t positions, LayerSaved& s) const {
    at::Tensor qkv_MP = qkv().forward(norm(places.norm1, x_MC, s.norm1));
    if (config.qk_norm)
        qkv_MP = ops::qk_norm(qkv_MP, norm_weight(config, weight(places.q_norm)),
                              norm_weight(config, weight(places.k_norm)), kv_heads(),
                              config.norm_eps, s.qk_norm);
    // If there are pieces, attention saves its own copies of the heads. This result is then not
    // saved, so `kept` need not allocate it.
    return ops::rope(qkv_MP.view({-1, positions, qkv_MP.size(1)}), kv_heads(), table,
                     kept_unless(recompute.attention() || !pieces.empty()));
}

at::Tensor Layer::finish(const at::Tensor& x_MC, const at::Tensor& o_MA, LayerSaved& s) const {
    s.o_MA = o_MA;
    const at::Tensor x1_MC = add_attention(x_MC, o_MA, s);
    begin_mlp(norm(places.norm2, x1_MC, s.norm2), s, kept_unless(recompute.mlp()));
    if (places.router >= 0 && !again) experts().count(s.experts, balance);
    return add_mlp(x1_MC, s);
}

Experts Layer::experts() const {
    return {parameters,
            {config.experts_per_token, config.normalizes_experts},
            config.experts,
            first + places.router,
            tp,
            rows,
            static_cast<int>(index),
            again};
}

// Computes the gate and up products of the feed-forward block. h2_MC: the output of the second
// norm. `place` allocates the products of a block without experts.
void Layer::begin_mlp(const at::Tensor& h2_MC, LayerSaved& s, const ops::Place& place) const {
    if (places.router >= 0)
        s.experts = experts().begin(h2_MC);
    else
        s.gate_up = {gate_up().forward(h2_MC, place)};
}

// Returns past_MC plus the product of in_MX and `matrix`. If there is a post-norm, the product is
// first normalized. `place` allocates the output of the matrix product.
at::Tensor Layer::add_product(const at::Tensor& past_MC, const at::Tensor& in_MX,
                              const Linear& matrix, int post_norm, ops::RmsNormSaved& saved,
                              const ops::Place& place) const {
    if (post_norm < 0) return matrix.forward_add(past_MC, in_MX, place);
    return norm(post_norm, matrix.forward(in_MX, place), saved).add_(past_MC);
}

at::Tensor Layer::add_attention(const at::Tensor& x_MC, const at::Tensor& o_MA,
                                LayerSaved& s) const {
    return add_product(x_MC, o_MA, out(), places.post_norm1, s.post_norm1,
                       kept_unless(recompute.full()));
}

// Returns x1_MC plus the feed-forward block's output. Takes the gate and up products from `s`.
at::Tensor Layer::add_mlp(const at::Tensor& x1_MC, LayerSaved& s) const {
    if (places.router >= 0) return experts().finish(x1_MC, s.experts);
    const at::Tensor a_MI = config.activation == spec::Activation::Silu
                                ? ops::swiglu(s.gate_up.gate_up_MJ, s.gate_up)
                                : ops::geglu(s.gate_up.gate_up_MJ);
    const bool is_dropped = places.post_norm2 < 0 ? !recompute.keeps_output : recompute.full();
    return add_product(x1_MC, a_MI, down(), places.post_norm2, s.post_norm2,
                       kept_unless(is_dropped));
}

// Recomputes a norm's output, which forward computed but did not save.
at::Tensor Layer::norm_again(int place, const ops::RmsNormSaved& saved) const {
    ops::RmsNormSaved same;
    return norm(place, saved.x_MC, same);
}

// Returns dx_MC, the gradient of the norm's input. The factor of the norm is w or 1 + w; the
// gradient dw is the same for both.
at::Tensor Layer::norm_backward(int place, const at::Tensor& dy_MC, ops::RmsNormSaved& saved,
                                const at::Tensor& dresidual_MC, const Contribute& input) const {
    const at::Tensor w_C = norm_weight(config, weight(place));
    const at::Tensor part_C = grad_like(parameters, first + place);
    at::Tensor dx_MC =
        ops::rms_norm_backward(dy_MC, w_C, std::exchange(saved, {}), dresidual_MC, part_C);
    input(first + place, add_norm_grad(part_C));
    return dx_MC;
}

at::Tensor Layer::qk_norm_backward(const at::Tensor& dy_MP, LayerSaved& s,
                                   const Contribute& input) const {
    const at::Tensor q_D = norm_weight(config, weight(places.q_norm)),
                     k_D = norm_weight(config, weight(places.k_norm));
    const at::Tensor dq_D = grad_like(parameters, first + places.q_norm),
                     dk_D = grad_like(parameters, first + places.k_norm);
    at::Tensor dx_MP = ops::qk_norm_backward(dy_MP, q_D, k_D, kv_heads(),
                                             std::exchange(s.qk_norm, {}), dq_D, dk_D);
    input(first + places.q_norm, add_norm_grad(dq_D));
    input(first + places.k_norm, add_norm_grad(dk_D));
    return dx_MP;
}

// Takes the gradient of the output of the MLP's last matrix product. Returns the gradient of the
// activation function's input.
at::Tensor Layer::activation_backward(const at::Tensor& ddown_MC, LayerSaved& s,
                                      const Contribute& weight_half) const {
    const at::Tensor da_MI = down().backward_input(ddown_MC);
    const ops::SwigluSaved saved = std::exchange(s.gate_up, {});
    at::Tensor a_MI, dgate_up_MJ;
    if (config.activation == spec::Activation::Silu) {
        dgate_up_MJ = ops::swiglu_backward(da_MI, saved, a_MI);
    } else {
        a_MI = ops::geglu(saved.gate_up_MJ);
        dgate_up_MJ = ops::geglu_backward(da_MI, saved.gate_up_MJ);
    }
    down().owe(ddown_MC, a_MI, weight_half);
    return dgate_up_MJ;
}

// Takes dy_MC, the gradient of the layer's output. Returns the gradient of the second norm's input.
at::Tensor Layer::mlp_backward(const at::Tensor& dy_MC, LayerSaved& s, const Contribute& input,
                               const Contribute& weight_half) const {
    if (places.router >= 0) {
        const at::Tensor dh2_MC =
            experts().backward(dy_MC, norm_again(places.norm2, s.norm2),
                               std::exchange(s.experts, {}), balance.factor, weight_half);
        return norm_backward(places.norm2, dh2_MC, s.norm2, dy_MC, input);
    }
    at::Tensor ddown_MC = dy_MC;
    if (places.post_norm2 >= 0)
        ddown_MC = norm_backward(places.post_norm2, dy_MC, s.post_norm2, {}, input);
    ddown_MC = down().whole_grad(ddown_MC);
    const at::Tensor dgate_up_MJ = activation_backward(ddown_MC, s, weight_half);
    const at::Tensor dh2_MC =
        gate_up().backward(dgate_up_MJ, norm_again(places.norm2, s.norm2), weight_half);
    return norm_backward(places.norm2, dh2_MC, s.norm2, dy_MC, input);
}

at::Tensor Layer::backward_input(const at::Tensor& dy_MC, LayerSaved& s, const Contribute& input,
                                 const Contribute& weight_half) const {
    const at::Tensor dx1_MC = mlp_backward(dy_MC, s, input, weight_half);
    at::Tensor dout_MC = dx1_MC;
    if (places.post_norm1 >= 0)
        dout_MC = norm_backward(places.post_norm1, dx1_MC, s.post_norm1, {}, input);
    dout_MC = out().whole_grad(dout_MC);
    out().owe(dout_MC, std::exchange(s.o_MA, {}), weight_half);
    const at::Tensor do_MA = out().backward_input(dout_MC);
    const ops::Heads dheads = attention_backward(do_MA, s);
    at::Tensor dqkv_MP = ops::rope_backward(dheads, table, do_MA.scalar_type()).flatten(0, 1);
    if (config.qk_norm) dqkv_MP = qk_norm_backward(dqkv_MP, s, input);
    const at::Tensor dh1_MC =
        qkv().backward(dqkv_MP, norm_again(places.norm1, s.norm1), weight_half);
    return norm_backward(places.norm1, dh1_MC, s.norm1, dx1_MC, input);
}

}  // namespace roll::train
