// Determines which part of a parameter one rank of a tensor-parallel group holds. worker/layout
// computes the parts. It also computes the parts of the tensors in checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "common/spec/train/model.hpp"
#include "worker/layout/shards.hpp"
#include "worker/train/model/chunk_spec.hpp"

namespace roll::train {

// The part of a parameter that one rank holds.
struct TensorShard {
    std::vector<std::int64_t> sizes;
    // The elements of the whole tensor that the rank holds. The other elements of the rank's tensor
    // are padding. Empty: each rank holds the whole tensor.
    std::vector<layout::Part> parts;
    // true: the gradients must be summed over the tensor-parallel ranks, because each rank computes
    // only its share of the sum. The share comes from the rank's heads, from its outputs or inputs
    // (LoRA), or from its rows (sequence parallelism).
    bool partial = false;
};

// Returns the part of the parameter `name` on rank chunk.tp_rank of chunk.tp. `sizes`: the sizes of
// the parameter's whole tensor. Requires that spec::tensor_problems() is empty.
TensorShard tensor_shard(const spec::ModelConfig& config, const std::string& name,
                         const std::vector<std::int64_t>& sizes, const ChunkSpec& chunk);

// Returns a view of the block of `tensor` that begins at `begin` and has the size `size`.
at::Tensor part_view(at::Tensor tensor, const layout::Shape& begin, const layout::Shape& size);

// Returns the number of rows of the embedding, and of the output layer, that each rank holds. The
// last ranks may have rows of padding.
std::int64_t vocabulary_rows(const spec::ModelConfig& config, int tp);

}  // namespace roll::train
