// Reads from a launch file the job's spec and the directories of its checkpoints, and checks that
// the trainer supports the spec. The ranks do not communicate for this.
#pragma once

#include <filesystem>
#include <vector>

#include "common/protocol/rank.hpp"
#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"

namespace roll::train {

// Checks that the trainer supports a job's settings. Throws RankFailure(invalid) for an unsupported
// setting, or for sizes that do not divide each other as required. The message names the setting or
// the sizes.
void check_spec(const spec::TrainSpec& spec);

// Checks the parallel axes against the sizes of the model, because check_spec() does not know these
// sizes. Throws as check_spec() does, with all problems in one message.
void check_layout(const spec::TrainSpec& spec, const spec::ModelConfig& model, bool on_gpu);

spec::TrainSpec checked_spec(const protocol::Launch& launch);

// Returns the directories of the checkpoints that the launch file lists and does not mark as
// deleted, newest first. The run may start from any of them.
std::vector<std::filesystem::path> candidates_of(const protocol::Launch& launch);

// Returns the output directory of the job that wrote `checkpoint`.
std::filesystem::path output_of(const std::filesystem::path& checkpoint);

}  // namespace roll::train
