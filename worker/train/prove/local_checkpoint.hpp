// Checkpoints of a job whose ranks are threads of this process. The ranks write and read them with
// the code of save/, as the ranks of a job of several processes do.
#pragma once

#include <filesystem>

#include "common/spec/train/parallel.hpp"
#include "worker/train/comm/communicator.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Returns the directory of the checkpoint that save_locally() writes below `root`. Only one
// checkpoint exists at a time.
std::filesystem::path local_checkpoint(const std::filesystem::path& root);

// Writes a checkpoint of the ranks' state below `root`. `parallel`: the layout that the files get.
// `rank`: this rank's number in `world`. All ranks must call this function. Throws RankFailure.
void save_locally(const std::filesystem::path& root, TrainStep& step, const ModelSetup& model,
                  const spec::ParallelSpec& parallel, int rank, Communicator& world);

}  // namespace roll::train
