// Chooses what backward computes again so that a job fits parallel.memory_limit.
#pragma once

#include <vector>

#include "worker/train/pipeline/job_memory.hpp"

namespace roll::train {

// Returns the layers of each chunk.
std::vector<plan::ChunkLayers> chunk_layers(const std::vector<ChunkSpec>& chunks);

// Returns, by layer of the model, what backward computes again: for each stage the choice with the
// fewest FLOPs that fits the limit, and of several equally cheap ones, the one with the least
// memory. In each chunk, the first layers have one kind and the others a cheaper one, or all layers
// are computed again in units. `held` has what each stage holds without recomputation. Throws
// RankFailure(invalid) with the smallest possible memory if no choice fits.
plan::Recomputed chosen_recompute(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                                  const JobPipeline& job, std::vector<plan::Held> held);

// Throws RankFailure(invalid) if a stage needs more than the limit.
void check_limit(const spec::TrainSpec& spec, const std::vector<plan::MemoryBytes>& stages);

}  // namespace roll::train
