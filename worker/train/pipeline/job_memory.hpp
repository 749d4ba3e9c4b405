// The pipeline of a train job as a value, and the memory that its ranks need.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/spec/train.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

struct JobPipeline {
    std::vector<ChunkSpec> chunks;  // one chunk per stage, in the order of forward
    std::vector<plan::Costs> costs;
    plan::PipelineSchedule schedule;
    plan::Recomputed recompute = {};  // by layer of the model; empty: nothing
};

// Returns the number of elements of the optimizer's state of parameters: of the kind with an ending
// (state_endings()), or of all kinds.
std::int64_t state_numel(const spec::OptimizerSpec& options,
                         std::span<const ParameterSpec> parameters, std::string_view ending = {});

// Returns the chunks of the job for plan::stage_costs().
std::vector<plan::StagePart> parts_of(const JobPipeline& job, int tp);

// Returns what the ranks of each pipeline stage hold, for plan::memory_bytes().
std::vector<plan::Held> stage_held(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                                   const JobPipeline& pipeline, bool on_gpu);

// Returns the memory of the first rank of each stage. No other rank of the stage needs more.
std::vector<plan::MemoryBytes> stage_memory(const spec::TrainSpec& spec,
                                            const spec::ModelConfig& config,
                                            const JobPipeline& pipeline, bool on_gpu);

}  // namespace roll::train
