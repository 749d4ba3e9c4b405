// What a checkpoint holds of a model: copied at a step boundary, written while training goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "worker/checkpoint/state.hpp"
#include "worker/train/model_setup.hpp"
#include "worker/train/optim/adamw.hpp"

namespace roll::train {

// A copy of the main weights and the moments in host memory; nothing in it changes any more. Any
// thread may read it.
struct Snapshot {
    std::vector<ParameterSpec> specs;
    std::vector<at::Tensor> weight, average, square;  // by parameter; no moments of frozen ones
    std::int64_t updates = 0;
    checkpoint::State state;
    std::string job;  // its record (job_record.hpp)
};

Snapshot take_snapshot(Chunk& chunk, AdamW& optimizer, const checkpoint::State& state,
                       const std::string& job);

// What a checkpoint takes on disk, or a little more: its tensors, which `rollctl plan` tells as
// well, what says where each lies, and the files that travel with the model.
std::uint64_t snapshot_bytes(const Parameters& parameters, const ModelSetup& model);

// Writes all of a checkpoint's files but the manifest: docs/internals.md, "Inside a checkpoint
// directory". float64 weights are stored as such; mca_config.json then says float32, for which MCA
// has a word.
Result<void> write_snapshot(const std::filesystem::path& directory, const Snapshot& snapshot,
                            const ModelSetup& model);

// Fills weights and moments from a checkpoint of the same model and type; what was frozen then and
// is not now begins without moments. Throws RankFailure.
checkpoint::State restore(const std::filesystem::path& directory, Chunk& chunk, AdamW& optimizer);

}  // namespace roll::train
