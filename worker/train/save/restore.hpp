// Loads a checkpoint into a rank's part of the model, and writes the files of a checkpoint that do
// not hold tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "worker/checkpoint/state.hpp"
#include "worker/formats/mca.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Fills this rank's weights and moments from a checkpoint of the same model and type, which any
// layout may have written. Parameters that were frozen in the checkpoint's job and are not frozen
// now start with zero moments. A LoRA job's own weights of the model are not read. Throws
// RankFailure.
checkpoint::State restore(const std::filesystem::path& directory, TrainStep& step,
                          const ModelSetup& model);

// Fills this rank's weights like load_weights(), from a directory that may have fewer rows of the
// vocabulary.
std::string load_weights(const std::filesystem::path& directory, TrainStep& step,
                         std::uint64_t seed = 1);

// Writes the files of a checkpoint without tensors, except the manifest (docs/internals.md, "Inside
// a checkpoint directory"). `layout` is that of the MCA files. float64 weights are stored as
// float64, but mca_config.json then says float32, because MCA has no name for float64. `job` is the
// job record (job_record.hpp).
Result<void> write_head_files(const std::filesystem::path& directory, const ModelSetup& model,
                              const formats::McaLayout& layout, const checkpoint::State& state,
                              const std::string& job);

}  // namespace roll::train
