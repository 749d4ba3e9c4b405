// Computes the logits of the next token of one sequence, with this rank's part of the model and its
// cached keys and values. Parts on other stages compute in turn: a stage waits for the values of
// the previous stage, and sends its own values to the next stage.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/train/model/chunk.hpp"
#include "worker/train/ops/rope.hpp"

namespace roll::train {

// A part of the model, in one chunk.
struct TextPart {
    Chunk* chunk = nullptr;  // null: another stage has this part
    int stage = 0;           // rank in the pipeline's group that has this part
};

// The parts of a model in the order of forward.
struct TextModel {
    std::vector<TextPart> parts;
    Communicator* pp = nullptr;  // group of the pipeline's stages; null: one stage
    Communicator* dp = nullptr;  // group of the replicas that share weights; null: none
};

// Returns a model that one chunk contains.
inline TextModel text_model(Chunk& whole) { return {{{&whole}}}; }

class TextDecoder {
  public:
    // `positions`: maximum number of tokens in the sequence
    TextDecoder(const TextModel& model, std::int64_t positions);

    // Appends `tokens` to the sequence. On the last stage, returns the logits of the next token,
    // [V]. On the other stages, returns an undefined tensor.
    at::Tensor take(const std::vector<std::int64_t>& tokens);

    std::int64_t position() const { return position_; }  // number of tokens in the sequence

  private:
    // Cached keys and values of one layer. S is the maximum number of positions; other letters are
    // as in ops/rope.hpp.
    struct LayerCache {
        at::Tensor k_GSD, v_GSD;
    };
    // The cache of one of this rank's parts. `lengths`: the row lengths of the weights with DoRA.
    // They are computed only once, because the weights do not change while the object exists.
    struct PartCache {
        ops::RopeTable table;
        std::vector<LayerCache> layers;
        RowLengths lengths;
    };

    at::Tensor run_part(std::size_t number, const at::Tensor& in_MC,
                        const std::vector<std::int64_t>& tokens);
    at::Tensor attention(const LayerCache& cache, const ops::Heads& heads,
                         const ops::AttentionRule& rule) const;

    TextModel model_;
    std::vector<PartCache> caches_;  // one entry per part; empty for a part of another stage
    std::int64_t position_ = 0;
};

}  // namespace roll::train
