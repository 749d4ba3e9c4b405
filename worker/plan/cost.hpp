// What a model costs: parameters, arithmetic, memory and disk, by counting. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "common/spec/model.hpp"
#include "common/spec/train.hpp"

namespace roll::plan {

std::int64_t parameter_count(const spec::ModelConfig& model);

// Of one trained token in a sequence of seq_length: forward and backward (three times forward), a
// multiply-add counted as two. `causal` counts the attention scores that a causal mask leaves, (T +
// 1) / 2 a token; `full` counts all T, as most published figures do. Neither counts scores outside
// of a window. Products only; recompute, were there any, would not count. The gradients of
// `frozen` weights, which take part in products and keep their values, are not computed.
struct FlopsPerToken {
    double causal = 0;
    double full = 0;
};
FlopsPerToken flops_per_token(const spec::ModelConfig& model, std::int64_t seq_length,
                              std::int64_t frozen = 0);

// The same of sequences of these lengths that see nothing of each other, their tokens' mean: sums
// over L (L + 1) / 2 and L^2. REQUIRES: not empty.
FlopsPerToken flops_per_token(const spec::ModelConfig& model, std::span<const std::int64_t> lengths,
                              std::int64_t frozen = 0);

// Bytes on one rank that holds the whole model. `program` is what it takes over a model of nearly
// nothing: its code, LibTorch, the threads' stacks; of a GPU's memory, where all else lies there,
// what CUDA takes is not known, and left out. `activations` is what `live` micro-batches save from
// forward to backward, less what lies in the gradients' memory (spare_room.hpp: with one
// micro-batch a step, on a CPU); `workspace` what comes on top where the most is held: at the loss
// its block of logits with the rows that go in and come out, or in a layer's backward the gradient
// of its widest product. `snapshot` is the copy that a checkpoint is written from while training
// goes on.
struct MemoryBytes {
    std::int64_t weights = 0;
    std::int64_t main_weights = 0;  // what the optimizer moves, beyond the weights
    std::int64_t gradients = 0;
    std::int64_t moments = 0;
    std::int64_t activations = 0;
    std::int64_t workspace = 0;
    std::int64_t snapshot = 0;
    std::int64_t program = 0;
    std::int64_t total() const {
        return weights + main_weights + gradients + moments + activations + workspace + snapshot +
               program;
    }
};
struct Held {
    int live = 1;             // micro-batches
    std::int64_t frozen = 0;  // parameters, which have no moments and on a CPU no gradients
    bool on_gpu = false;
};
MemoryBytes memory_bytes(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                         const Held& held);

struct CheckpointBytes {
    std::int64_t weights = 0;
    std::int64_t optimizer = 0;
};
CheckpointBytes checkpoint_bytes(const spec::ModelConfig& model, spec::Precision precision,
                                 std::int64_t frozen = 0);

}  // namespace roll::plan
