// The layers of one virtual pipeline stage, with the saved activations of its micro-batches.
//
// For each micro-batch, call forward, backward_input and backward_weight in this order. Calls for
// other micro-batches may be made in between. Gradients are summed in parameters().grad; the sum
// has the same bits for any order of micro-batches. The first contribution after begin_step()
// overwrites the old gradient. The functions throw c10::Error.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "worker/train/model/decoder_layer.hpp"
#include "worker/train/model/gathered_weights.hpp"
#include "worker/train/model/ordered_grads.hpp"
#include "worker/train/model/saved_room.hpp"
#include "worker/train/model/sequence_rows.hpp"
#include "worker/train/model/sequences.hpp"
#include "worker/train/model/vocabulary.hpp"
#include "worker/train/ops/cross_entropy.hpp"

namespace roll::train {

class Chunk {
  public:
    // `tp`: the group of the chunk.tp ranks that share the chunk's tensors; null if chunk.tp is 1.
    // `dp`: the group of the ranks that share weights; used only if options.splits_weights is true.
    // `cp`: the context-parallel group; used only for micro-batches with Microbatch::context.
    // The groups must outlive this object.
    Chunk(const spec::ModelConfig& config, const ChunkSpec& chunk, const InitOptions& options,
          Communicator* tp = nullptr, Communicator* dp = nullptr, Communicator* cp = nullptr);
    Chunk(const Chunk&) = delete;
    Chunk& operator=(const Chunk&) = delete;

    // Sets a function that is called before weights are used: await(i) returns when the weights of
    // the parameters up to `i` have the values of the latest update.
    void before_use(std::function<void(int parameter)> await) { await_ = std::move(await); }
    void begin_step();  // starts a step; its micro-batches are numbered from 0
    // Sets DoRA's magnitudes to the weights' row lengths. All ranks of the chunk must call this.
    void start_magnitudes();

    // Computes a micro-batch's forward pass. `hidden_MC` comes from the previous stage; the first
    // stage (`pre`) ignores it. Returns hidden_MC for the next stage. The last stage (`post`)
    // returns the summed loss times rule.scale, a 0-dim double. With a teacher, returns two such
    // numbers: the loss and the divergence from the teacher. With rule.preference, returns the
    // log-probability or the score of each sequence, as doubles on the CPU.
    at::Tensor forward(int microbatch, const Microbatch& data, const at::Tensor& hidden_MC,
                       const LossRule& rule, const GradReady& ready);

    // Computes the gradients of activations, down to the model's lowest trained part. Takes the
    // gradient of hidden_MC from the next stage, if part().takes_gradient(). Returns the gradient
    // for the previous stage; undefined unless part().sends_gradient().
    at::Tensor backward_input(int microbatch, const at::Tensor& dhidden_MC, WeightHalves when,
                              const GradReady& ready);

    // Computes the remaining weight gradients, and frees everything saved for the micro-batch.
    void backward_weight(int microbatch, const GradReady& ready);

    // Like forward(), but saves nothing for backward, and does not scale the losses. With a
    // teacher, the divergences are those at `temperature`.
    at::Tensor evaluate(const Microbatch& data, const at::Tensor& hidden_MC,
                        double temperature = 1);
    // Like evaluate(), but the last stage returns each sequence's log-probability or score.
    at::Tensor log_probs(const Microbatch& data, const at::Tensor& hidden_MC);
    // Like evaluate(), but the last stage returns the most probable tokens for each target that is
    // not ignored. The result is [2, N, K] doubles on the CPU: N rows of K ids, then N rows of
    // log-probabilities.
    at::Tensor top_tokens(const Microbatch& data, const at::Tensor& hidden_MC, const TopRule& rule);
    at::Tensor logits(const at::Tensor& tokens_BT);  // returns [B, T, V]; needs a whole model

    // Returns the weights that the ranks share; null if each rank has all weights.
    GatheredWeights* gathered() { return gathered_.get(); }
    // Parts of forward for text generation (text_decoder.hpp); each function gathers its weights.
    at::Tensor embed(const at::Tensor& tokens_M, const RowSplit& rows = {}) const;
    using Attend = std::function<at::Tensor(const ops::Heads&, const ops::AttentionRule&)>;
    at::Tensor run_layer(std::int64_t index, const at::Tensor& x_MC, const ops::RopeTable& rope,
                         RowLengths& lengths, const Attend& attend) const;
    // Returns the logits of all tokens, [M, V], also if ranks split the vocabulary.
    at::Tensor next_logits(const at::Tensor& x_MC) const;
    // Returns the number of rows of this rank's hidden_MC.
    std::int64_t hidden_rows(const Microbatch& data) const { return rows_of(data).rows_per_rank(); }

    SavedRoom& saved_room() { return room_; }
    const ChunkSpec& part() const { return part_; }
    const spec::ModelConfig& config() const { return config_; }
    Parameters& parameters() { return parameters_; }

  private:
    struct Owed {
        int parameter;
        AddGrad add;
    };
    using Sequences = SequenceRows;
    struct Saved {
        at::Tensor tokens_M;
        Sequences sequences;
        std::vector<LayerSaved> layers;
        ops::RmsNormSaved norm;
        ops::CrossEntropySaved loss;
        std::vector<Owed> owed;
        at::Tensor dembedded_MC;
        // the values in the store of room_: one entry per layer, then one for the norm and the loss
        std::vector<ParkedValues> parked = {};
    };

    Layer layer(std::int64_t index, const Sequences& sequences, ops::Place place = {});
    Layer trained_layer(std::int64_t index, const Sequences& sequences, ops::Place place = {});
    // Recomputes the values that forward dropped for this layer and for earlier layers of its unit.
    void restore_before(Saved& saved, std::int64_t index);
    void restore(Saved& saved, std::int64_t index);
    void bring_back(Saved& saved, std::int64_t index);
    HeldUnit hold(int unit, int next, bool again = false) const;
    ops::Place place_of(int microbatch, std::int64_t layer);
    Sequences sequences_of(const Microbatch& data);
    RowSplit rows_of(const Microbatch& data) const;
    at::Tensor head_rows(const at::Tensor& h_MC, const RowSplit& rows) const;
    int first_layer() const { return part_.pre ? 1 : 0; }
    int norm() const;
    int head() const;
    at::Tensor here(const at::Tensor& tensor) const;  // returns a copy on the weights' device
    at::Tensor hidden_of(const Microbatch& data, const at::Tensor& hidden_MC);
    at::Tensor loss_of(int microbatch, const at::Tensor& x_MC, const Microbatch& data,
                       const LossRule& rule, const GradReady& ready);
    std::vector<double> sequence_log_probs(const at::Tensor& h_MC, const Microbatch& data) const;
    at::Tensor score_of(int microbatch, const at::Tensor& h_MC, const Microbatch& data,
                        const LossRule& rule, const GradReady& ready);
    at::Tensor embed(const Microbatch& data, const at::Tensor& hidden_MC, const RowSplit& rows);
    at::Tensor normed(const at::Tensor& x_MC, ops::RmsNormSaved& saved) const;
    ops::Head output() const;
    at::Tensor loss_backward(Saved& saved, const Contribute& contribute);

    spec::ModelConfig config_;
    ChunkSpec part_;
    Communicator *tp_, *cp_;
    Vocabulary vocabulary_;
    PlacesOfLayers places_;
    Parameters parameters_;
    OrderedGrads grads_;
    SavedRoom room_;
    std::unique_ptr<GatheredWeights> gathered_;
    std::function<void(int parameter)> await_;  // empty: weights need no wait
    SequenceTable sequences_;
    std::uint64_t seed_;          // seed of dropout
    RowLengths lengths_;          // lengths of the rows of this step's weights
    std::map<int, Saved> saved_;  // key: micro-batch; kept from forward to backward_weight
};

}  // namespace roll::train
