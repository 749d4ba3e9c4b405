// The files with the weights in a checkpoint of a LoRA job. Such a checkpoint is a PEFT adapter
// directory. The model's own weights are not in this directory. They are in the directory
// model.from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "common/tensor/view.hpp"
#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// The file that stores the LoRA factors, or their averages.
struct AdapterImage {
    std::string path;  // path of the file, relative to the checkpoint or to the averages' directory
    std::vector<tensor::TensorInfo> infos;  // sorted by name, as in the file
    std::vector<std::size_t> factors;       // for each of `infos`: the index in joined_factors()
};
AdapterImage adapter_image(TrainStep& step, const ModelSetup& model);

// On the first rank of the first replica, returns the factors of the whole model or, if `averaged`,
// their averages. The other ranks send their parts to this rank and get no tensors. All ranks must
// call this function.
std::vector<at::Tensor> joined_factors(TrainStep& step, bool averaged);

// Writes adapter_config.json, which names the model's directory.
Result<void> write_adapter_config(const std::filesystem::path& directory, const ModelSetup& model);

// Fills this rank's factors from a PEFT adapter. Converts them to the type of the main weights.
// Throws RankFailure if the adapter has other LoRA settings than the job.
void read_adapter(const std::filesystem::path& directory, TrainStep& step, const ModelSetup& model);

// If the job has train.lora.from, fills this rank's factors and their averages from this adapter.
// Returns true in that case.
bool start_from_adapter(TrainStep& step, const ModelSetup& model);

// Returns true if the directory is a checkpoint of a LoRA job.
bool is_adapter(const std::filesystem::path& directory);

}  // namespace roll::train
