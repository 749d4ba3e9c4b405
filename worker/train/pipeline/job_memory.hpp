// Describes the pipeline of a train job, and computes the memory that its ranks need.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "common/spec/train/train.hpp"
#include "worker/plan/cost.hpp"
#include "worker/train/model/chunk_spec.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

struct JobPipeline {
    std::vector<ChunkSpec> chunks;  // one chunk per stage, in the order of forward
    std::vector<plan::Costs> costs;
    plan::PipelineSchedule schedule;
    plan::Recomputed recompute = {};  // recomputation of each layer of the model; empty: none
};

// Returns the bytes of the optimizer state of `parameters` (states_of()). Counts only the kind of
// state whose name has the ending `ending`; if `ending` is empty, counts all kinds.
std::int64_t state_bytes(const spec::TrainSpec& spec, std::span<const ParameterSpec> parameters,
                         std::string_view ending = {});

// Returns state_bytes() of all kinds, in elements of the main weights' type, rounded up.
std::int64_t state_numel(const spec::TrainSpec& spec, std::span<const ParameterSpec> parameters);

// Returns the size of the largest unit of weights that ZeRO-3 gathers at once (GatheredWeights), in
// elements of `element` bytes.
std::int64_t largest_unit(std::span<const ParameterSpec> parameters, std::int64_t element);

// Returns the chunks of the job, in the form that plan::stage_costs() takes.
std::vector<plan::StagePart> parts_of(const JobPipeline& job, int tp);

// Returns the costs with only the activations that are in the device's memory. If the job offloads
// activations, none of them are in this memory after forward.
std::vector<plan::Costs> costs_in_memory(const spec::TrainSpec& spec,
                                         std::vector<plan::Costs> costs);

// Returns what the ranks of each pipeline stage hold in memory, for plan::memory_bytes().
std::vector<plan::Held> stage_held(const spec::TrainSpec& spec, const spec::ModelConfig& config,
                                   const JobPipeline& pipeline, bool on_gpu);

// Returns the memory that the first rank of each stage needs. No other rank of the stage needs
// more.
std::vector<plan::MemoryBytes> stage_memory(const spec::TrainSpec& spec,
                                            const spec::ModelConfig& config,
                                            const JobPipeline& pipeline, bool on_gpu);

}  // namespace roll::train
