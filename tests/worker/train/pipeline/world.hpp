// Trains the tiny model on dp * pp * tp * cp ranks of an in-process fabric, and compares runs.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/worker/train/expect.hpp"
#include "tests/worker/train/notes.hpp"
#include "tests/worker/train/tiny_model.hpp"
#include "worker/train/prove/local_job.hpp"

namespace roll::train {

// Default number of micro-batches of a step, over all replicas. A schedule has this number
// divided by dp.
inline constexpr int kMicrobatches = 8;

// The gradient norm exceeds this limit in every step.
inline constexpr double kClip = 0.3;

// The micro-batches of a step. They have different numbers of targets that count; the 12th has
// none. Packed: each has segments of 1 to 7 tokens. Lengths: every second one is shorter. Pairs:
// each has two preference pairs, one, or (the 6th) none, with reference log-probabilities. Labels:
// the same sequences, each with a label, and mismatched ones.
enum class Data { Plain, Packed, Lengths, Pairs, Labels };

// The numbers of pairs and of labelled answers in the default number of micro-batches.
inline constexpr int kPairsOfStep = 11, kAnswersOfStep = 22;

struct World {
    spec::ModelConfig config;
    plan::PipelineSchedule schedule;
    int dp = 1, tp = 1;
    LocalOptions fabric = {};
    int steps = 3;       // number of the step after the last one
    int first_step = 0;  // number of the first step
    int cp = 1;
    bool sequence = false;  // sequence parallelism over the tensor-parallel ranks
    int zero = 0;
    at::ScalarType dtype = at::kDouble;
    at::Device device = at::kCPU;
    double clip = kClip;  // 0: no clipping
    std::vector<std::string> freeze = {};
    StageSplit split = {};
    Data data = Data::Plain;
    spec::TokenLossSpec loss = {};
    std::optional<spec::PreferenceSpec> preference = std::nullopt;  // for Data::Pairs and Labels
    plan::Recomputed recompute = {};  // by layer of the model; empty: nothing is computed again
    spec::OptimizerSpec optimizer = {};
    // The same members as in LocalJob, with the same meaning
    int saves_after = 0;
    std::filesystem::path saves_to = {}, starts_from = {};
    const ModelSetup* model = nullptr;  // what the files of a checkpoint record
    spec::ParallelSpec parallel = {};
    std::function<void(TrainStep& step)> load = {};
    bool evaluates = true;
    std::function<void(TrainStep& step)> prepare = {};
    std::function<std::vector<Microbatch>(std::span<const Microbatch>, const Communicator& cp)>
        divide = {};
    // Changes the micro-batches of a step; empty: they stay as they are.
    std::function<void(int step, std::vector<Microbatch>& batch)> change = {};
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

// Returns the model of `world` as one chunk, with its starting weights.
std::unique_ptr<Chunk> starting_model(const World& world);

// Replaces the reference log-probabilities of the micro-batches by those under `model`.
void set_references(Chunk& model, std::vector<Microbatch>& batch);

// Returns the world as a job of this process. `world` must outlive it.
LocalJob job_of(const World& world);

// Trains and returns what the job computed. Expects that clipping acts in every step unless it is
// off, and that replicas and both copies of a tied embedding are bitwise equal. Rethrows the first
// exception of a rank.
Named train(const World& world);

// Returns the first quantity that differs by more than 1e-10, or of which two ranks have different
// copies, in the order in which steps compute them; nullopt if none differs.
std::optional<std::string> first_difference(const Record& seen, const Named& reference);

}  // namespace roll::train
