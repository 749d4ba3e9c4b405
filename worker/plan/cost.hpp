// Computes the costs of a model by counting: parameters, FLOPs, memory and disk. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/spec/model.hpp"
#include "common/spec/train.hpp"
#include "worker/plan/pipeline_check.hpp"

namespace roll::plan {

// Returns the bytes per element of weights and activations with which the model computes.
std::int64_t element_bytes(spec::Precision precision);

// Returns the bytes per element of the main weights, which the optimizer updates.
std::int64_t main_bytes(spec::Precision precision);

std::int64_t parameter_count(const spec::ModelConfig& model);

// FLOPs per trained token of forward and backward together, which is three times forward. A
// multiply-add counts as two FLOPs. Only matrix products count, and recomputed products do not.
// Attention scores: `causal` counts only those that a causal mask leaves, (T + 1) / 2 per token
// with T = `seq_length`; `full` counts all T, as most published figures do. Neither counts scores
// outside an attention window. For `frozen` elements of weights, the gradients are not computed and
// not counted.
struct FlopsPerToken {
    double causal = 0;
    double full = 0;
};
FlopsPerToken flops_per_token(const spec::ModelConfig& model, std::int64_t seq_length,
                              std::int64_t frozen = 0);

// Like the function above, for several sequences that do not attend to each other. Returns the mean
// over all their tokens: sums L (L + 1) / 2 and L^2 over the sequences' lengths L. Requires at
// least one length.
FlopsPerToken flops_per_token(const spec::ModelConfig& model, std::span<const std::int64_t> lengths,
                              std::int64_t frozen = 0);

// Bytes on one rank, which holds the whole model or the chunks of a pipeline stage.
// - `program`: memory of the program with an almost empty model: code, LibTorch, thread stacks. 0
//   on a GPU, because CUDA's own memory is unknown.
// - `activations`: values saved from forward to backward by `live` micro-batches. On a CPU, with
//   one micro-batch per step and no frozen parameters, some of these values are in the gradients'
//   memory (spare_room.hpp) and do not count.
// - `workspace`: temporary memory at the peak. The peak is at the loss, for a block of logits with
//   its input and output rows, or in a layer's backward, for the gradient of its widest product.
// - `snapshot`: the copy of the whole model from which a checkpoint is written while training
//   continues; 0 on a stage that does not write.
// - `exchange`: buffers for gradients, if the data-parallel ranks share optimizer state.
struct MemoryBytes {
    std::int64_t weights = 0;
    // Bytes of the optimizer's copy of the weights that exceed `weights`
    std::int64_t main_weights = 0;
    std::int64_t gradients = 0;
    std::int64_t moments = 0;
    std::int64_t activations = 0;
    std::int64_t workspace = 0;
    std::int64_t snapshot = 0;
    std::int64_t exchange = 0;
    std::int64_t program = 0;
    std::int64_t total() const {
        return weights + main_weights + gradients + moments + activations + workspace + snapshot +
               exchange + program;
    }
};
// The part of a model that a pipeline stage holds.
struct StagePart {
    std::int64_t layers = 0;  // of all its chunks
    int chunks = 1;
    bool first = true, last = true;    // has the embedding; has the output layer
    std::int64_t frozen_of_model = 0;  // number of frozen elements of the whole model
    int tp = 1;                        // number of ranks that share the tensors of each layer
    std::int64_t first_layer = 0;  // index of the stage's first layer, if the stage has one chunk
};
// Returns the number of parameters on one rank of a stage, with the padding of the vocabulary. A
// tied embedding counts on both of its stages.
std::int64_t part_parameters(const spec::ModelConfig& model, const StagePart& part);

// Returns the costs of the stages of a pipeline, one entry of `parts` for each chunk in the order
// of forward, for one micro-batch. Times are proportional to the FLOPs of the matrix products; one
// unit is the forward of as many layers as a stage has on average. The last stage's forward
// includes the output layer with both halves of its backward, because the trainer computes all
// three together.
std::vector<Costs> stage_costs(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                               std::span<const StagePart> parts);

// What a rank has if the data-parallel ranks share optimizer state, in elements.
struct Owned {
    std::int64_t all = 0;       // elements that the rank updates, with frozen ones
    std::int64_t trained = 0;   // those of them that are not frozen
    std::int64_t exchange = 0;  // gradients in buffers, on their way to other ranks
    bool gradients = false;     // true: the rank has the gradients of the elements it updates only
};

struct Held {
    // number of micro-batches whose activations are in memory at once, counted in each chunk
    int live = 1;
    // Number of frozen elements of weights; they have no moments, and no gradients on a CPU
    std::int64_t frozen = 0;
    bool on_gpu = false;
    std::optional<StagePart> part = std::nullopt;  // nullopt: the whole model
    // Bytes of activations, from a simulation of the schedule; nullopt: those of `live`
    // micro-batches from forward to backward
    std::optional<std::int64_t> activations = std::nullopt;
    std::optional<Owned> owned = std::nullopt;  // nullopt: all optimizer state
};
// Returns the memory of the first rank of a stage, on which no other rank of the stage needs more.
MemoryBytes memory_bytes(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                         const Held& held);

// Returns the bytes that a rank of `part` sends to the other ranks of its tensor-parallel group in
// a step of one replica, without the few numbers per token of the loss.
std::int64_t tensor_bytes(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                          const StagePart& part);

struct CheckpointBytes {
    std::int64_t weights = 0;
    std::int64_t optimizer = 0;
};
CheckpointBytes checkpoint_bytes(const spec::ModelConfig& model, spec::Precision precision,
                                 std::int64_t frozen = 0);

}  // namespace roll::plan
