// The configuration of a decoder-only transformer, independent of model families. A family file
// (schemas/families) maps the keys of a HuggingFace config to the fields of this configuration.
//
// Features that few models have are off by default (false, 0 or Plain) and then cost no time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/spec/train/lora.hpp"

namespace roll::spec {

// How the frequencies of rotary embeddings are scaled for texts longer than original_positions:
//
// - Linear divides all frequencies by `factor`.
// - Wavelength counts the rotations that a frequency makes in original_positions positions. It
//   divides a frequency with fewer than low_factor rotations by `factor`, and does not change a
//   frequency with more than high_factor rotations. It interpolates between these two cases for all
//   other frequencies.
// - Yarn is like Wavelength, but interpolates linearly in the index of the frequency. If `whole` is
//   set, the first interpolated index is rounded down, and the last one is rounded up. Yarn also
//   multiplies queries and keys by `attention_factor`.
// - Long divides each frequency by its own factor. The factors are `short_factors` in sequences of
//   up to original_positions, and `long_factors` in longer sequences. Long also multiplies queries
//   and keys by `attention_factor`.
struct RopeScaling {
    enum class Kind { Plain, Linear, Wavelength, Yarn, Long };
    Kind kind = Kind::Plain;
    double factor = 1;
    double low_factor = 1;
    double high_factor = 4;
    double original_positions = 0;
    double attention_factor = 1;
    bool whole = true;
    std::vector<double> short_factors = {};
    std::vector<double> long_factors = {};

    // Returns the sequence length up to which the frequencies do not depend on the length of the
    // sequence; 0 if they never depend on the length.
    std::int64_t same_up_to() const {
        return kind == Kind::Long ? static_cast<std::int64_t>(original_positions) : 0;
    }
    friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

// The activation of the feed-forward layer's gate; GeluTanh is gelu with the tanh approximation.
enum class Activation { Silu, GeluTanh };

struct ModelConfig {
    std::string family;  // name of the family file, which is a `model_type` of HuggingFace
    std::int64_t hidden = 0;
    std::int64_t layers = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t intermediate = 0;
    std::int64_t vocab = 0;
    std::int64_t positions_max = 0;
    bool tied = false;  // the output layer uses the embedding's weight
    // Reward model: the model has a score (one number for each sequence) and no output layer
    bool scores = false;
    double rope_theta = 10000;
    double norm_eps = 1e-5;
    double init_std = 0.02;

    RopeScaling rope_scaling = {};
    bool qkv_bias = false;
    bool out_bias = false;       // the attention's output projection has a bias
    bool qk_norm = false;        // each query and key head has an RMSNorm before RoPE
    bool norm_adds_one = false;  // norms multiply by 1 + weight
    // RMSNorms of the outputs of attention and feed-forward, before the residual is added
    bool post_norms = false;
    double embedding_scale = 1;     // factor of the embedding's output
    double attention_scale = 0;     // factor of the attention scores; 0: 1 / sqrt(head_dim)
    double attention_soft_cap = 0;  // scores become cap * tanh(score / cap); 0: no cap
    // cap of the output layer's logits, used like attention_soft_cap; 0: no cap
    double logit_soft_cap = 0;
    // Width of a sliding window: the number of positions that each position attends to, including
    // itself.
    std::int64_t window = 0;
    // One entry per layer: true if the layer uses the sliding window. Empty: all layers use the
    // sliding window.
    std::vector<bool> sliding_layers = {};
    Activation activation = Activation::Silu;
    // Mixture of experts. If `experts` is above 0, each layer has a router and `experts`
    // feed-forward blocks of width `intermediate`. Each token uses `experts_per_token` of them.
    std::int64_t experts = 0;
    std::int64_t experts_per_token = 0;
    // true: the weights of a token's experts are divided by their sum
    bool normalizes_experts = false;
    double balance_loss = 0;  // factor of the load-balancing loss
    LoraSpec lora = {};  // the adapter that is trained; the model's own weights are then frozen

    // Returns the number of feed-forward blocks that a token uses in a layer.
    std::int64_t blocks_per_token() const { return experts > 0 ? experts_per_token : 1; }

    // Returns the number of weights of a layer's experts that a token does not use.
    std::int64_t unused_per_token() const {
        return experts > 0 ? (experts - experts_per_token) * 3 * hidden * intermediate : 0;
    }

    // Returns the window of one layer; 0 if the layer sees all earlier positions.
    std::int64_t window_of(std::int64_t layer) const {
        return sliding_layers.empty() || sliding_layers[static_cast<std::size_t>(layer)] ? window
                                                                                         : 0;
    }

    // Returns the number of outputs and the number of inputs of a linear layer.
    std::pair<std::int64_t, std::int64_t> linear_sizes(LoraPlace place) const {
        switch (place) {
            case LoraPlace::Q: return {heads * head_dim, hidden};
            case LoraPlace::K:
            case LoraPlace::V: return {kv_heads * head_dim, hidden};
            case LoraPlace::Out: return {hidden, heads * head_dim};
            case LoraPlace::Gate:
            case LoraPlace::Up: return {intermediate, hidden};
            case LoraPlace::Down: return {hidden, intermediate};
        }
        return {};
    }
    friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

}  // namespace roll::spec
