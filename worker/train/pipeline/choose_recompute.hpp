// Chooses which activations backward recomputes, so that a job fits parallel.memory_limit.
#pragma once

#include <vector>

#include "worker/train/pipeline/job_memory.hpp"

namespace roll::train {

// Returns, for each chunk, its range of layers that have a backward.
std::vector<plan::ChunkLayers> chunk_layers(const std::vector<ChunkSpec>& chunks);

// Returns, for each layer of the model, what backward recomputes. For each stage, takes the choice
// with the fewest FLOPs that fits the limit. If several choices are equally cheap, takes the choice
// with the least memory. In a chunk, the first layers have one kind of recomputation, and the other
// layers have a cheaper kind. Alternatively, all layers of a chunk are recomputed in units. `held`:
// the memory that each stage holds without recomputation. If no choice fits, throws
// RankFailure(invalid) with the smallest possible memory.
plan::Recomputed chosen_recompute(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                                  const JobPipeline& job, std::vector<plan::Held> held);

// Throws RankFailure(invalid) if a stage needs more memory than parallel.memory_limit.
void check_limit(const spec::TrainSpec& spec, const std::vector<plan::MemoryBytes>& stages);

}  // namespace roll::train
