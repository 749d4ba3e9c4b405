#include "worker/train/model/chunk.hpp"

#include <ATen/ATen.h>

#include "common/check.hpp"
#include "worker/train/ops/embedding.hpp"
#include "worker/train/ops/linear.hpp"

namespace roll::train {

Chunk::Chunk(const spec::ModelConfig& config, const ChunkSpec& chunk, const InitOptions& options)
    : config_(config),
      part_(chunk),
      parameters_(make_parameters(parameter_specs(config, chunk), options)) {}

Layer Chunk::layer(std::int64_t index) {
    return {config_, parameters_, rope_,
            first_layer() + static_cast<int>(index) * kLayerParameters};
}

int Chunk::norm() const {
    return first_layer() + static_cast<int>(part_.layer_end - part_.layer_begin) * kLayerParameters;
}

int Chunk::head() const { return config_.tied && part_.pre ? 0 : norm() + 1; }

void Chunk::prepare_rope(std::int64_t positions) {
    if (rope_.cos_TE.defined() && rope_.cos_TE.size(0) == positions) return;
    rope_ = ops::rope_table(positions, config_.head_dim, config_.rope_theta,
                            parameters_.flat_weight.scalar_type());
}

at::Tensor Chunk::loss_of(const at::Tensor& x_MC, const at::Tensor& targets_M, double scale,
                          Saved& saved) {
    const auto& [specs, flat, flat_grad, weight, grad] = parameters_;
    const at::Tensor h_MC = ops::rms_norm(x_MC, weight[norm()], config_.norm_eps, saved.norm);
    return ops::linear_cross_entropy(h_MC, weight[head()], targets_M, scale, grad[head()],
                                     saved.loss);
}

at::Tensor Chunk::forward(int microbatch, const Microbatch& data, const at::Tensor& hidden_MC,
                          double scale) {
    auto [entry, fresh] = saved_.try_emplace(microbatch);
    ROLL_CHECK(fresh);
    Saved& saved = entry->second;
    saved.tokens_M = data.tokens_BT.flatten();
    saved.layers.resize(static_cast<std::size_t>(part_.layer_end - part_.layer_begin));
    const std::int64_t positions = data.tokens_BT.size(1);
    prepare_rope(positions);
    at::Tensor x_MC = part_.pre ? ops::embedding(saved.tokens_M, parameters_.weight[0]) : hidden_MC;
    for (std::size_t i = 0; i < saved.layers.size(); ++i)
        x_MC = layer(static_cast<std::int64_t>(i)).forward(x_MC, positions, saved.layers[i]);
    return part_.post ? loss_of(x_MC, data.targets_BT.flatten(), scale, saved) : x_MC;
}

at::Tensor Chunk::evaluate(const Microbatch& data, const at::Tensor& hidden_MC) {
    const std::int64_t positions = data.tokens_BT.size(1);
    prepare_rope(positions);
    at::Tensor x_MC =
        part_.pre ? ops::embedding(data.tokens_BT.flatten(), parameters_.weight[0]) : hidden_MC;
    for (std::int64_t i = 0; i < part_.layer_end - part_.layer_begin; ++i) {
        LayerSaved dropped;
        x_MC = layer(i).forward(x_MC, positions, dropped);
    }
    if (!part_.post) return x_MC;
    ops::RmsNormSaved dropped;
    const at::Tensor h_MC =
        ops::rms_norm(x_MC, parameters_.weight[norm()], config_.norm_eps, dropped);
    return ops::linear_cross_entropy_value(h_MC, parameters_.weight[head()],
                                           data.targets_BT.flatten());
}

at::Tensor Chunk::backward_input(int microbatch, const at::Tensor& dhidden_MC,
                                 const GradReady& ready) {
    Saved& saved = saved_.at(microbatch);
    at::Tensor dx_MC = dhidden_MC;
    if (part_.post) {
        ready(head());  // its gradient came with the loss
        const at::Tensor none_MC = at::zeros_like(saved.loss.dx_MC);
        dx_MC = ops::rms_norm_backward(saved.loss.dx_MC, parameters_.weight[norm()], saved.norm,
                                       none_MC, parameters_.grad[norm()]);
        ready(norm());
    }
    for (auto i = std::ssize(saved.layers) - 1; i >= 0; --i) {
        dx_MC = layer(i).backward_input(dx_MC, saved.layers[i], saved.owed, ready);
        saved.layers.pop_back();
    }
    if (!part_.pre) return dx_MC;
    saved.dembedded_MC = dx_MC;
    return {};
}

void Chunk::backward_weight(int microbatch, const GradReady& ready) {
    Saved saved = std::move(saved_.extract(microbatch).mapped());
    for (WeightHalf& half : saved.owed) {
        ops::linear_backward_weight(half.dy_MO, half.x_MI, parameters_.grad[half.parameter]);
        ready(half.parameter);
        half = {};
    }
    if (!part_.pre) return;
    ops::embedding_backward_weight(saved.dembedded_MC, saved.tokens_M, parameters_.grad[0]);
    ready(0);
}

}  // namespace roll::train
