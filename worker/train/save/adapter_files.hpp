// The weights in a checkpoint of a LoRA job: a PEFT adapter directory. The model's own weights are
// not in it; they are those of model.from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/tensor/view.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// The file with the factors of LoRA.
struct AdapterImage {
    std::string path;                       // relative to the checkpoint's directory
    std::vector<tensor::TensorInfo> infos;  // sorted by name, as in the file
    std::vector<std::size_t> factors;       // for each of `infos`: the index in joined_factors()
};
AdapterImage adapter_image(TrainStep& step, const ModelSetup& model);

// Returns the factors of the whole model on the first rank of the first replica, and no tensors on
// the others, whose parts are sent to it. All ranks must call it.
std::vector<at::Tensor> joined_factors(TrainStep& step);

// Writes adapter_config.json, which names the model's directory.
Result<void> write_adapter_config(const std::filesystem::path& directory, const ModelSetup& model);

// Fills this rank's factors from a checkpoint's adapter. Throws RankFailure if it
// has other LoRA settings.
void read_adapter(const std::filesystem::path& directory, TrainStep& step, const ModelSetup& model);

// Returns true if the directory is a checkpoint of a LoRA job.
bool is_adapter(const std::filesystem::path& directory);

}  // namespace roll::train
