// Trains the tiny model on dp * pp * tp ranks of an in-process fabric, and compares runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/train/comm/local_fabric.hpp"

namespace roll::train {

// Default number of micro-batches of a step, over all replicas. A schedule has this number
// divided by dp.
inline constexpr int kMicrobatches = 8;

// The gradient norm exceeds this limit in every step.
inline constexpr double kClip = 0.3;

// The micro-batches of a step. They have different numbers of targets that count; the 12th has
// none. Packed: each has segments of 1 to 7 tokens. Lengths: every second one is shorter.
enum class Data { Plain, Packed, Lengths };

struct World {
    spec::ModelConfig config;
    plan::PipelineSchedule schedule;
    int dp = 1, tp = 1;
    LocalOptions fabric = {};
    int steps = 3;
    bool sequence = false;  // sequence parallelism over the tensor-parallel ranks
    int zero = 0;
    at::ScalarType dtype = at::kDouble;
    double clip = kClip;  // 0: no clipping
    std::vector<std::string> freeze = {};
    StageSplit split = {};
    Data data = Data::Plain;
    plan::Recomputed recompute = {};  // by layer of the model; empty: nothing is computed again
};

// Returns a model whose layers divide into 4 stages of 2 chunks.
inline spec::ModelConfig world_model(bool tied) {
    spec::ModelConfig config = tiny_model(tied);
    config.layers = 8;
    return config;
}

// Returns a model for tensor parallelism: 4 ranks divide its heads and its intermediate size, but
// not its vocabulary. If `tied`, the model also has the features of Gemma.
inline spec::ModelConfig split_model(bool tied) {
    spec::ModelConfig config = tiny_model(tied);
    config.heads = 8;
    config.kv_heads = 4;
    config.qkv_bias = config.out_bias = config.qk_norm = true;
    if (!tied) return config;
    config.post_norms = config.norm_adds_one = true;
    config.embedding_scale = 4;
    config.logit_soft_cap = 5;
    config.activation = spec::Activation::GeluTanh;
    return config;
}

// Trains and returns, by name, the loss, gradient norm, clip factor and zeros of every step, all
// gradients, weights and moments after it, and then the loss of other data. Clipping acts in every
// step unless it is off. Expects replicas and both copies of a tied embedding to be bitwise equal.
// Rethrows the first exception of a rank.
Named train(const World& world);

// Returns the first quantity that differs by more than 1e-10, in the order in which steps compute
// them; nullopt if none differs.
std::optional<std::string> first_difference(const Named& seen, const Named& reference);

}  // namespace roll::train
