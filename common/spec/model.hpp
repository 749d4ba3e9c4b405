// What a decoder-only transformer is, in terms no family owns. A family file (schemas/families)
// maps a HuggingFace config onto it.
//
// What few models have is absent by default (false, 0 or Plain), and then costs nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace roll::spec {

// How rotary frequencies are stretched for longer texts. Linear divides all of them by `factor`;
// Wavelength divides those that turn less than low_factor times in original_positions, leaves those
// that turn more than high_factor times, and goes smoothly from one to the other between. Yarn does
// the same, but smoothly in a frequency's number, between the numbers at which those turns are met,
// rounded outwards if `whole`; and it multiplies queries and keys by `attention_factor`. So does
// Long, which divides each frequency by a number of its own: of `short_factors` in sequences of up
// to original_positions, of `long_factors` in longer ones.
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

    // Positions up to which a sequence turns as shorter ones do; 0: any length does.
    std::int64_t same_up_to() const {
        return kind == Kind::Long ? static_cast<std::int64_t>(original_positions) : 0;
    }
    friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

// Of the gate in the feed-forward layer; GeluTanh is gelu by its tanh formula.
enum class Activation { Silu, GeluTanh };

struct ModelConfig {
    std::string family;  // the file that it came from: an HF model_type
    std::int64_t hidden = 0;
    std::int64_t layers = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t intermediate = 0;
    std::int64_t vocab = 0;
    std::int64_t positions_max = 0;
    bool tied = false;  // the output layer is the embedding
    double rope_theta = 10000;
    double norm_eps = 1e-5;
    double init_std = 0.02;

    RopeScaling rope_scaling = {};
    bool qkv_bias = false;
    bool out_bias = false;          // of the attention's output product
    bool qk_norm = false;           // each query and key head has an RMSNorm before it turns
    bool norm_adds_one = false;     // norms multiply by 1 + weight
    bool post_norms = false;        // norms after attention and feed-forward, before the sums
    double embedding_scale = 1;     // of the embedding's output
    double attention_scale = 0;     // of the scores; 0: 1 / sqrt(head_dim)
    double attention_soft_cap = 0;  // scores become cap * tanh(score / cap); 0: they stay
    double logit_soft_cap = 0;      // likewise the output layer's
    std::int64_t window = 0;        // positions that a sliding layer sees, its own included
    std::vector<bool> sliding_layers = {};  // empty: all slide, where there is a window
    Activation activation = Activation::Silu;

    // The window of one layer; 0: it sees everything before it.
    std::int64_t window_of(std::int64_t layer) const {
        return sliding_layers.empty() || sliding_layers[static_cast<std::size_t>(layer)] ? window
                                                                                         : 0;
    }
    friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

}  // namespace roll::spec
