// The parameters of a whole model whose layers are on several pipeline stages.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "worker/plan/pipeline_schedule.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/parameters.hpp"

namespace roll::train {

// A parameter of the whole model, and the rank and chunk that hold it.
struct WholeParameter {
    ParameterSpec spec;
    ParameterSpec own;      // this tensor-parallel rank's part of the parameter
    int rank = 0;           // stage that holds the parameter, as a rank of the pp group
    std::size_t chunk = 0;  // index of the chunk in that stage
    std::size_t index = 0;  // index of the parameter in that chunk
};

// Returns all parameters in the order of forward. `chunks`: the chunks of the stages of `schedule`
// (stage_chunks()). A tied embedding is listed once, on the first stage. `tp`: this rank's
// tensor-parallel group; null: none. `freeze`: globs of the names of frozen parameters.
std::vector<WholeParameter> whole_model(const spec::ModelConfig& config,
                                        std::span<const ChunkSpec> chunks,
                                        const plan::PipelineSchedule& schedule,
                                        const Communicator* tp,
                                        const std::vector<std::string>& freeze);

// Returns the parameters that checkpoints hold. These are all parameters except the frozen weights
// of a LoRA job.
std::vector<WholeParameter> saved_parameters(const std::vector<WholeParameter>& whole);

std::vector<ParameterSpec> specs_of(const std::vector<WholeParameter>& whole);

// Writes this rank's part of a parameter's tensors (for example, its weight) to CPU tensors that
// have the part's shape.
using CopyTensors = std::function<void(std::span<const at::Tensor> to)>;

// Copies whole tensors of `parameter` to the first rank of a replica: the first rank of the
// tensor-parallel group `tp` (null: no group) on the first stage. On that rank, writes the tensors
// to `to`. On the other ranks, uses only the size of `to`. Calls `copy` on the ranks that hold the
// parameter. All ranks of the replica must call this function. A rank holds buffers of type `type`
// for one parameter at a time.
void copy_to_first(const WholeParameter& parameter, Communicator& pp, Communicator* tp,
                   at::ScalarType type, std::span<const at::Tensor> to, const CopyTensors& copy);

// Returns the main weight of parameter `i` with all rows, although each replica has only its own
// rows. All replicas must call this function. No two replicas' rows overlap, so their sum is
// exact.
at::Tensor joined_main(const Parameters& parameters, std::size_t i, Communicator& dp);

}  // namespace roll::train
