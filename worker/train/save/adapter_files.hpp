// The weights in a checkpoint of a LoRA job: a PEFT adapter directory. The model's own weights are
// not in it; they are those of model.from.
#pragma once

#include <filesystem>
#include <span>

#include "worker/train/model/model_setup.hpp"
#include "worker/train/pipeline/train_step.hpp"

namespace roll::train {

// Writes adapter_config.json, which names the model's directory, and adapter_model.safetensors.
// `factors` are the values of `specs`.
Result<void> write_adapter(const std::filesystem::path& directory,
                           std::span<const ParameterSpec> specs,
                           std::span<const at::Tensor> factors, const ModelSetup& model);

// Fills this rank's factors from an adapter that write_adapter() wrote. Throws RankFailure if it
// has other LoRA settings.
void read_adapter(const std::filesystem::path& directory, TrainStep& step, const ModelSetup& model);

// Returns true if the directory is a checkpoint of a LoRA job.
bool is_adapter(const std::filesystem::path& directory);

}  // namespace roll::train
