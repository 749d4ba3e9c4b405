// Computes the costs of a model by counting: parameters, FLOPs, memory and disk. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"
#include "worker/plan/element_bytes.hpp"
#include "worker/plan/exchange_peak.hpp"
#include "worker/plan/pipeline_check.hpp"
#include "worker/plan/recompute.hpp"

namespace roll::plan {

std::int64_t parameter_count(const spec::ModelConfig& model);

// Returns the number of tokens of a micro-batch of one replica. A micro-batch of pairs may have
// fewer tokens, because pairs are not padded.
std::int64_t microbatch_tokens(const spec::TrainSpec& spec);

// FLOPs of forward and backward per trained token: three times the FLOPs of forward if all
// parameters are trained. A multiply-add counts as two FLOPs. Only matrix products count, and each
// of them once: recomputation does not count. `causal` counts the attention scores under a causal
// mask, (T + 1) / 2 per token, where T is `seq_length`. `full` counts all T scores per token, as
// most published figures do. Neither counts scores outside an attention window.
struct FlopsPerToken {
    double causal = 0, full = 0;
};
// Backward skips the weight gradients of the `elements` frozen elements in matrix products, and
// everything below the model's part `lowest` (ChunkSpec::lowest).
struct Untrained {
    std::int64_t elements = 0, lowest = -1;
};
FlopsPerToken flops_per_token(const spec::ModelConfig& model, std::int64_t seq_length,
                              const Untrained& untrained = {});

// Returns the mean FLOPs per token of one or more sequences that do not attend to each other. A
// sequence of length L has L (L + 1) / 2 causal scores and L^2 scores in all.
FlopsPerToken flops_per_token(const spec::ModelConfig& model, std::span<const std::int64_t> lengths,
                              const Untrained& untrained = {});

// Returns the FLOPs per token with which backward repeats parts of forward (recomputation).
// `recompute` has one entry per layer of the model. LoRA's factors do not count.
double recompute_flops_per_token(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                                 const Recomputed& recompute);

// Bytes on one rank, which holds the whole model or the chunks of a pipeline stage.
// - `program`: memory of the program with an almost empty model: code, LibTorch, thread stacks. 0
//   on a GPU, because CUDA's own memory is unknown.
// - `activations`: values that `live` micro-batches save from forward to backward. On a CPU, with
//   one micro-batch per step and no frozen parameters, some of these values are in the gradients'
//   memory (spare_room.hpp) and do not count.
// - `workspace`: the largest temporary memory of the loss, of a layer's backward or of the update.
//   The loss needs a block of logits with its input and output rows. A layer's backward needs the
//   gradient of its widest product and the recomputed values. No activations are in memory during
//   the update.
// - `snapshot`: the copy of the rank's part of a checkpoint, which is written to disk while
//   training continues. The value is for the rank with the stage's largest part.
// - `exchange`: gradients of incomplete buckets and buffers for gradients, if the data-parallel
//   ranks share optimizer state; buffers for Muon's matrices.
// `activations`, `workspace` and `exchange` are those of the moment at which their sum is largest.
struct MemoryBytes {
    std::int64_t weights = 0, gradients = 0;
    std::int64_t main_weights = 0;  // the optimizer's copy of the weights, in addition to `weights`
    std::int64_t moments = 0;       // optimizer state of all kinds
    std::int64_t activations = 0, workspace = 0, snapshot = 0, exchange = 0, program = 0;
    std::int64_t updated = 0;    // part of `gradients`, for the elements that this rank updates
    std::int64_t offloaded = 0;  // state and activations outside the device's memory
    std::int64_t total() const {
        return weights + main_weights + gradients + moments + activations + workspace + snapshot +
               exchange + program;
    }
};
// The part of a model that a pipeline stage holds.
struct StagePart {
    std::int64_t layers = 0;  // number of layers in all chunks of the stage
    int chunks = 1;
    bool first = true, last = true;    // `first`: has the embedding; `last`: has the output layer
    std::int64_t frozen_of_model = 0;  // number of frozen elements of the whole model
    int tp = 1;  // number of ranks among which the tensors of each layer are split
    std::int64_t first_layer = 0;  // index of the first layer of the stage's first chunk
    // `lowest`: lowest trained part of the model (ChunkSpec::lowest). `below`: number of the
    // stage's layers below that part.
    std::int64_t lowest = -1, below = 0;
};
// Returns the number of parameters on one rank of a stage, including the padding of the
// vocabulary. A tied embedding counts on both the first and the last stage.
std::int64_t part_parameters(const spec::ModelConfig& model, const StagePart& part);

// Returns the costs of one micro-batch on each stage of a pipeline. `parts` has one entry per
// chunk, in the order of forward. Times are proportional to the FLOPs of matrix products. Their
// unit is the mean time that the layers of a stage take in forward. The last stage's forward
// includes the forward and backward of the output layer, because the trainer computes them
// together. `recompute` has one entry per layer of the model; empty: none.
std::vector<Costs> stage_costs(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                               std::span<const StagePart> parts, const Recomputed& recompute = {});

// One rank's part of the optimizer state, in elements, if data-parallel ranks share that state.
struct Owned {
    std::int64_t all = 0;      // elements of the rank's part, including frozen ones
    std::int64_t trained = 0;  // elements in `all` that are not frozen
    std::int64_t states = 0;   // elements of the optimizer's state
    Outside outside = {};
    // for each chunk: the buckets in which gradients are exchanged; sizes in bytes
    std::vector<std::vector<ExchangeBucket>> buckets = {};
    bool gradients = false;  // true: the rank stores gradients only for its own elements
    // Numbers of weights if the ranks also share weights; else 0.
    // - `weights`: in memory on the rank at the peak, including `gathered`
    // - `gathered`: in the memory of gathered units at the peak
    // - `gathers`: own weights that the rank sends to each other rank for each micro-batch
    // - `updates`: own weights that the rank sends to each other rank after each update
    std::int64_t weights = 0, gathered = 0, gathers = 0, updates = 0;
};

struct Held {
    // Largest number of micro-batches whose activations are in memory at once. A micro-batch
    // counts once for each chunk.
    int live = 1;
    std::int64_t frozen = 0;  // weights without optimizer state and, on a CPU, without gradients
    // elements of optimizer state; nullopt: two per trained element, as for AdamW
    std::optional<std::int64_t> states = std::nullopt;
    // bytes in an update: temporary values of Adafactor, and offloaded state in memory
    std::int64_t update_bytes = 0;
    std::int64_t matrices = 0;       // elements of the buffers in which Muon computes one matrix
    std::int64_t copied_states = 0;  // elements in `states` that another stage also has
    Outside outside = {};
    bool on_gpu = false;
    std::optional<StagePart> part = std::nullopt;  // nullopt: the whole model
    // Bytes of activations at the peak of a simulated schedule; nullopt: count the activations of
    // `live` micro-batches.
    std::optional<std::int64_t> activations = std::nullopt;
    std::optional<Owned> owned = std::nullopt;  // rank's part of the optimizer state; nullopt: all
    Recomputed recompute = {};  // recomputation of the part's layers, chunk by chunk; empty: none
};
// Returns the memory of the rank that needs the most memory in its stage.
MemoryBytes memory_bytes(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                         const Held& held);

struct CheckpointBytes {
    std::int64_t weights = 0, optimizer = 0;
};
// `states`: elements of optimizer state; nullopt: two per trained element
CheckpointBytes checkpoint_bytes(const spec::ModelConfig& model, spec::Precision precision,
                                 std::int64_t frozen = 0,
                                 std::optional<std::int64_t> states = std::nullopt);

}  // namespace roll::plan
