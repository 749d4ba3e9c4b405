// The layers of one virtual stage, with what its micro-batches in flight have saved.
//
// The three calls of a micro-batch come in this order, with those of others in between as the
// schedule has it. Gradients are summed in parameters().grad, with the same bits whatever the order
// of the micro-batches; the first after begin_step() replaces what was there. Not thread-safe;
// throws c10::Error.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "worker/train/model/decoder_layer.hpp"
#include "worker/train/model/ordered_grads.hpp"
#include "worker/train/model/saved_room.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {

// Whether backward_input also does the weight halves, a layer at a time. It then holds less and
// tells earlier that gradients are ready, but its result comes later.
enum class WeightHalves { Now, Later };

class Chunk {
  public:
    Chunk(const spec::ModelConfig& config, const ChunkSpec& chunk, const InitOptions& options);
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;

    // A new step: micro-batches count from 0 again.
    void begin_step() {
        grads_.begin();
        room_.clear();
    }

    // Takes hidden_MC from the stage before (nothing if pre), returns hidden_MC for the next or, if
    // post, scale * the summed loss as a 0-dim double.
    at::Tensor forward(int microbatch, const Microbatch& data, const at::Tensor& hidden_MC,
                       double scale, const GradReady& ready);

    // Takes d hidden_MC of the stage after (nothing if post), returns that for the one before
    // (undefined if pre).
    at::Tensor backward_input(int microbatch, const at::Tensor& dhidden_MC, WeightHalves when,
                              const GradReady& ready);

    // Does the products that backward_input left, and frees what the micro-batch still holds.
    void backward_weight(int microbatch, const GradReady& ready);

    // What forward gives, but the plain sum of the loss, and nothing is kept for a backward.
    at::Tensor evaluate(const Microbatch& data, const at::Tensor& hidden_MC);

    // Of a whole model in one chunk: [B, T, V].
    at::Tensor logits(const at::Tensor& tokens_BT);

    // The parts of a forward pass, for generation with its own attention: the embedding's output,
    // the last norm of x_MC, and the output layer.
    at::Tensor embedded(const at::Tensor& tokens_M) const;
    at::Tensor normed(const at::Tensor& x_MC, ops::RmsNormSaved& saved) const;
    ops::Head output() const;
    const LayerPlaces& places() const { return places_; }

    const ChunkSpec& part() const { return part_; }
    const spec::ModelConfig& config() const { return config_; }
    Parameters& parameters() { return parameters_; }

  private:
    struct Owed {
        int parameter;
        AddGrad add;
    };
    // How a micro-batch's rows lie in sequences. Segments make one of all rows, with positions that
    // begin again at each.
    struct Sequences {
        std::int64_t positions = 0;
        ops::RopeTable rope;
        std::vector<std::int64_t> segments;
    };
    struct Saved {
        at::Tensor tokens_M;
        Sequences sequences;
        std::vector<LayerSaved> layers;
        ops::RmsNormSaved norm;
        ops::CrossEntropySaved loss;
        std::vector<Owed> owed;
        at::Tensor dembedded_MC;
    };

    Layer layer(std::int64_t index, const Sequences& sequences, ops::Place place = {});
    ops::Place place_of(int microbatch, std::int64_t layer);
    Sequences sequences_of(const Microbatch& data);
    int first_layer() const { return part_.pre ? 1 : 0; }
    int norm() const;
    int head() const;
    at::Tensor here(const at::Tensor& tensor) const;  // on the weights' device
    at::Tensor hidden_of(const Microbatch& data, const at::Tensor& hidden_MC);
    void prepare_rope(std::int64_t positions);
    at::Tensor loss_of(int microbatch, const at::Tensor& x_MC, const at::Tensor& targets_M,
                       double scale, const GradReady& ready);
    at::Tensor loss_backward(Saved& saved, const Contribute& contribute);

    spec::ModelConfig config_;
    ChunkSpec part_;
    LayerPlaces places_;
    Parameters parameters_;
    OrderedGrads grads_;
    SavedRoom room_;
    ops::RopeTable rope_;
    std::map<int, Saved> saved_;  // by micro-batch, from forward to backward_weight
};

}  // namespace roll::train
