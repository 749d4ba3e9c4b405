// Loads a checkpoint into a rank's part of the model. Also writes the files of a checkpoint that
// have no tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "worker/checkpoint/state.hpp"
#include "worker/formats/dcp.hpp"
#include "worker/formats/mca.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Fills this rank's weights and optimizer state from a checkpoint of the same model and type.
// Returns the checkpoint's state. Any layout may have written the checkpoint. A parameter that was
// frozen in the checkpoint's job, but is not frozen now, starts with zero optimizer state. In a
// LoRA job, the model's own weights are not read. Throws RankFailure.
checkpoint::State restore(const std::filesystem::path& directory, TrainStep& step,
                          const ModelSetup& model);

// Fills this rank's weights, like load_weights() of the model. The directory may have fewer
// vocabulary rows than the model.
std::string load_weights(const std::filesystem::path& directory, TrainStep& step,
                         std::uint64_t seed = 1, const std::vector<std::string>& adapters = {});

// Writes the checkpoint files that have no tensors, except the manifest (docs/internals.md, "Inside
// a checkpoint directory"). `layout` is the layout of the MCA files. `job` is the job record
// (job_record.hpp). `dist`: the metadata of a checkpoint in the format torch_dist; null: another
// format. float64 weights are stored as float64, but mca_config.json then says float32, because MCA
// has no name for float64.
Result<void> write_head_files(const std::filesystem::path& directory, const ModelSetup& model,
                              const formats::McaLayout& layout, const checkpoint::State& state,
                              const std::string& job, const formats::DcpMetadata* dist = nullptr);

}  // namespace roll::train
