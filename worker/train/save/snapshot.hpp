// A checkpoint's contents. They are copied from the model between two steps, and written while
// training goes on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "worker/checkpoint/state.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// A copy of the main weights and the moments of the whole model, or of the trained parameters of a
// LoRA job, in host memory. It is immutable; any thread may read it.
struct Snapshot {
    std::vector<ParameterSpec> specs;
    // By parameter; undefined moments for frozen parameters
    std::vector<at::Tensor> weight, average, square;
    std::int64_t updates = 0;
    checkpoint::State state;
    std::string job;  // the job record (job_record.hpp)
};

// Returns the snapshot on the first rank, and nullopt on the others, whose tensors are sent to the
// first. All ranks of the first replica must call it, and if replicas share optimizer state, all
// ranks.
std::optional<Snapshot> take_snapshot(TrainStep& step, const checkpoint::State& state,
                                      const std::string& job);

// Returns an upper bound of a checkpoint's size on disk in bytes: its tensors, as `rollctl plan`
// counts them, the tensors' headers, and the files that are copied with the model.
std::uint64_t snapshot_bytes(TrainStep& step, const ModelSetup& model);

// Writes all files of a checkpoint except the manifest (docs/internals.md, "Inside a checkpoint
// directory"). float64 weights are stored as float64, but mca_config.json then says float32,
// because MCA has no name for float64.
Result<void> write_snapshot(const std::filesystem::path& directory, const Snapshot& snapshot,
                            const ModelSetup& model);

// Fills this rank's weights and moments from a checkpoint of the same model and type. Parameters
// that were frozen in the checkpoint's job and are not frozen now start with zero moments. A LoRA
// job's own weights of the model are not read. Throws RankFailure.
checkpoint::State restore(const std::filesystem::path& directory, TrainStep& step,
                          const ModelSetup& model);

// Fills this rank's weights like load_weights(), from a directory that may have fewer rows of the
// vocabulary.
std::string load_weights(const std::filesystem::path& directory, TrainStep& step,
                         std::uint64_t seed = 1);

}  // namespace roll::train
