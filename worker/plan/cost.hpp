// What a model costs: parameters, arithmetic, memory and disk, by counting. Pure.
#pragma once

#include <cstdint>

#include "common/spec/model.hpp"
#include "common/spec/train.hpp"

namespace roll::plan {

std::int64_t parameter_count(const spec::ModelConfig& model);

// Of one trained token in a sequence of seq_length: forward and backward (three times forward), a
// multiply-add counted as two. `causal` counts the attention scores that a causal mask leaves, (T +
// 1) / 2 a token; `full` counts all T, as most published figures do. Products only; recompute, were
// there any, would not count.
struct FlopsPerToken {
    double causal = 0;
    double full = 0;
};
FlopsPerToken flops_per_token(const spec::ModelConfig& model, std::int64_t seq_length);

// Bytes on one rank that holds the whole model. `activations` is what `live` micro-batches save
// from forward to backward; `transient` the largest block of logits; `snapshot` the copy that a
// checkpoint is written from.
struct MemoryBytes {
    std::int64_t weights = 0;
    std::int64_t gradients = 0;
    std::int64_t moments = 0;
    std::int64_t activations = 0;
    std::int64_t transient = 0;
    std::int64_t snapshot = 0;
    std::int64_t total() const {
        return weights + gradients + moments + activations + transient + snapshot;
    }
};
MemoryBytes memory_bytes(const spec::ModelConfig& model, const spec::TrainSpec& spec, int live);

struct CheckpointBytes {
    std::int64_t weights = 0;
    std::int64_t optimizer = 0;
};
CheckpointBytes checkpoint_bytes(const spec::ModelConfig& model, spec::Precision precision);

}  // namespace roll::plan
