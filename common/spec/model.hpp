// What a decoder-only transformer is, in terms no family owns. A family file (schemas/families)
// maps a HuggingFace config onto it.
#pragma once

#include <cstdint>
#include <string>

namespace roll::spec {

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
    friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

}  // namespace roll::spec
