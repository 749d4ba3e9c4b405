// The layers of one virtual stage, with what its microbatches in flight have saved.
//
// The three calls of a microbatch come in this order, with those of others in between as the
// schedule has it. Gradients are added to parameters().grad; whoever steps also zeroes them.
// Not thread-safe; throws c10::Error.
#pragma once

#include <map>

#include "worker/train/model/decoder_layer.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {

class Chunk {
  public:
    Chunk(const spec::ModelConfig& config, const ChunkSpec& chunk, const InitOptions& options);

    // Takes hidden_MC from the stage before (nothing if pre), returns hidden_MC for the next or, if
    // post, scale * the summed loss as a 0-dim double.
    at::Tensor forward(int microbatch, const Microbatch& data, const at::Tensor& hidden_MC,
                       double scale);

    // What forward gives, but the plain sum of the loss, and nothing is kept for a backward.
    at::Tensor evaluate(const Microbatch& data, const at::Tensor& hidden_MC);

    // Takes d hidden_MC of the stage after (nothing if post), returns that for the one before
    // (undefined if pre).
    at::Tensor backward_input(int microbatch, const at::Tensor& dhidden_MC, const GradReady& ready);

    // Does the products that backward_input left, and frees what the microbatch still holds.
    void backward_weight(int microbatch, const GradReady& ready);

    const ChunkSpec& part() const { return part_; }
    std::int64_t hidden() const { return config_.hidden; }
    Parameters& parameters() { return parameters_; }

  private:
    struct Saved {
        at::Tensor tokens_M;
        std::vector<LayerSaved> layers;
        ops::RmsNormSaved norm;
        ops::CrossEntropySaved loss;
        std::vector<WeightHalf> owed;
        at::Tensor dembedded_MC;
    };

    Layer layer(std::int64_t index);
    int first_layer() const { return part_.pre ? 1 : 0; }
    int norm() const;
    int head() const;
    void prepare_rope(std::int64_t positions);
    at::Tensor loss_of(const at::Tensor& x_MC, const at::Tensor& targets_M, double scale,
                       Saved& saved);

    spec::ModelConfig config_;
    ChunkSpec part_;
    Parameters parameters_;
    ops::RopeTable rope_;
    std::map<int, Saved> saved_;  // by microbatch, from forward to backward_weight
};

}  // namespace roll::train
