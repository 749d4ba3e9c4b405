// Computes what tensor parallelism and context parallelism send. Pure.
#pragma once

#include <cstdint>

#include "worker/plan/cost.hpp"

namespace roll::plan {

// Returns the bytes that a rank of `part` sends to its tensor-parallel group in one step of one
// replica. Includes the tensors that recomputation sends again. Ignores the few numbers per token
// that the loss exchanges. `recompute` has one entry per layer of the part; empty: none.
std::int64_t tensor_bytes(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                          const StagePart& part, const Recomputed& recompute);

// Returns the bytes that a rank of `part` sends to its context-parallel group in one step.
std::int64_t context_bytes(const spec::ModelConfig& model, const spec::TrainSpec& spec,
                           const StagePart& part, const Recomputed& recompute);

}  // namespace roll::plan
