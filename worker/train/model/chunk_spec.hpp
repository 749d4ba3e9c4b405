// The part of a model that a chunk holds, and the input of a training step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/spec/train/model.hpp"
#include "common/spec/train/parallel.hpp"
#include "worker/plan/recompute.hpp"
#include "worker/train/model/context_rows.hpp"

namespace roll::train {

struct ChunkSpec {
    std::int64_t layer_begin = 0;
    // if equal to layer_begin, the chunk has no layers and passes its input on
    std::int64_t layer_end = 0;
    bool pre = true;  // the chunk holds the embedding, as the first stage does
    // the chunk holds the final norm, the output layer and the loss, as the last stage does
    bool post = true;
    int tp = 1;  // number of ranks over which the tensors of the chunk are split
    int tp_rank = 0;
    // Sequence parallelism: outside of the linear layers, each of the `tp` ranks has some of the
    // rows
    bool sequence = false;
    // recomputation of each layer of the chunk; empty: all values are saved
    plan::Recomputed recompute = {};
    // The lowest part of the model that has a trained parameter, as lowest_trained() returns it.
    // Backward ends there, so nothing is saved for the parts below.
    std::int64_t lowest = -1;

    plan::LayerRecompute recompute_of(std::int64_t layer) const {
        return recompute.empty() ? plan::LayerRecompute{}
                                 : recompute[static_cast<std::size_t>(layer)];
    }
    // Returns the first layer of the chunk that has a backward; layer_end: no layer has one.
    std::int64_t backward_begin() const { return std::clamp(lowest, layer_begin, layer_end); }
    // Return whether the chunk gets a gradient from the next stage, and whether it sends one to
    // the previous stage.
    bool takes_gradient() const { return !post && lowest < layer_end; }
    bool sends_gradient() const { return !pre && lowest < layer_begin; }
};

inline ChunkSpec whole_chunk(const spec::ModelConfig& config) { return {0, config.layers}; }

// Describes how a pipeline divides the layers of a model among `pp` stages, each with `vpp` chunks.
struct StageSplit {
    int pp = 1;
    int vpp = 1;
    // Number of layers of the first stage and of the last stage; 0: the same number as other stages
    int first_layers = 0;
    int last_layers = 0;
    // true: an embedding or output layer counts as one layer when layers are divided among stages
    bool account_for_embedding = false;
    bool account_for_loss = false;
    // Megatron's layout string; empty: the numbers above divide the layers
    std::string layout = {};
};

StageSplit stage_split(const spec::ParallelSpec& parallel);

// Returns the chunks in the order of forward: entry c * pp + p is chunk c of stage p. The chunks
// are divided as in layout::split_layers(). Throws RankFailure(invalid) if the layers cannot be
// divided in this way.
std::vector<ChunkSpec> stage_chunks(const spec::ModelConfig& config, const StageSplit& split);

// The predictions of a teacher for the rows of a micro-batch, on the CPU. Rows whose target is
// ignored may have any values. Without a teacher, both tensors are undefined.
struct TeacherValues {
    at::Tensor ids_MK;        // int64: the teacher's K most probable tokens
    at::Tensor log_probs_MK;  // doubles: their log-probabilities
};

// The input of one forward pass: B sequences of T positions. The tensors are int64 and contiguous.
struct Microbatch {
    at::Tensor tokens_BT;
    at::Tensor targets_BT;  // the token to predict at each position, or ops::kIgnored
    // Starts of the segments as indices into the B T rows, ascending. The start of each sequence is
    // included. Segments do not attend to each other. If empty, each sequence is one segment.
    std::vector<std::int64_t> segments = {};
    // Only for answers: log-probabilities of the segments under the reference model; empty if there
    // is no reference model. If the answers are pairs, segment 2 k is the chosen answer of pair k,
    // and segment 2 k + 1 is the rejected answer.
    std::vector<double> references = {};
    std::vector<double> margins = {};  // the margins of the pairs; empty if they have none
    // Only for labelled answers: 1 if the answer of the segment was chosen, 0 if it was rejected
    std::vector<std::uint8_t> labels = {};
    // Only for labelled answers: one micro-batch of mismatched answers, from which the divergence
    // from the reference model is estimated. Each segment has its own prompt but the answer of
    // another segment. Empty if no estimate is needed.
    std::vector<Microbatch> mismatched = {};
    TeacherValues teacher = {};
    // Index of this micro-batch's first row among the rows of all samples of the run. Dropout and
    // NEFTune's noise depend on this number, not on the layout.
    std::int64_t first_row = 0;
    // indices of this micro-batch's samples among all samples of the run, ascending
    std::vector<std::int64_t> samples = {};
    // If set, the tensors have only the rows of this rank, and `segments` is empty (context.hpp).
    std::optional<ContextRows> context = std::nullopt;
};

// Selects the function that computes the gradients of weights. Now: backward_input computes them
// layer by layer. This needs less memory, but backward_input returns later. Later: backward_weight
// computes them.
enum class WeightHalves { Now, Later };

// Selects the values that are stored for a target: the `count` most probable tokens at a
// temperature.
struct TopRule {
    std::int64_t count = 0;
    double temperature = 1;
};

}  // namespace roll::train
