// Features of roll-worker that a job may need. A worker names its features in its heartbeats. rolld
// starts no attempt on a worker that lacks a feature that the job needs.
#pragma once

#include <string>
#include <vector>

namespace roll::spec {

constexpr const char* kGangs = "gangs";         // for jobs with the key resources.tasks_per_node
constexpr const char* kScripts = "scripts";     // for jobs with a key setup, cleanup or modules
constexpr const char* kLogNames = "log_names";  // for jobs with a key stdout or stderr
constexpr const char* kSlotsPerRank = "slots_per_rank";
constexpr const char* kBatch = "sbatch";         // for jobs with the key sbatch
constexpr const char* kContainer = "container";  // for jobs with the key container
constexpr const char* kFiles = "files";          // for jobs with the key files
constexpr const char* kShell = "shell";          // for `rollctl shell`; no job needs this feature
// Features for values in training jobs. A trainer of an older release would ignore these values.
constexpr const char* kTorchDist = "torch_dist";    // for checkpoint.format torch_dist
constexpr const char* kLongRows = "long_rows";      // for data.truncate and data.packing wrapped
constexpr const char* kLoraFrom = "lora_from";      // for train.lora.from
constexpr const char* kLoraLayers = "lora_layers";  // for train.lora.layers and train.lora.exclude
constexpr const char* kSpikes = "spikes";    // for train.on_spike with a value other than ignore
constexpr const char* kExports = "exports";  // for export.every
// For train.optimizer.offload with a value other than none
constexpr const char* kOffload = "offload";
// for train.optimizer.offload_fraction with a value other than 1
constexpr const char* kOffloadFraction = "offload_fraction";
// for train.activation_offload with a value other than none
constexpr const char* kActivationOffload = "activation_offload";
// for parallel.pipeline_layout and parallel.schedule_file, and for parallel.stages with a value
// other than even
constexpr const char* kStages = "stages";
// for jobs with GPUs that have parallel.tp, pp or zero, or train.lora
constexpr const char* kGpuLayouts = "gpu_layouts";
// for jobs with GPUs that have packed weights (train.lora.base), or an optimizer with narrow states
constexpr const char* kGpuPacked = "gpu_packed";

constexpr const char* kTexts = "texts";      // for data.texts
constexpr const char* kContext = "context";  // for parallel.cp above 1
constexpr const char* kExperts = "experts";  // for model.num_experts and model.num_local_experts

inline std::vector<std::string> features() {
    return {kGangs,
            kScripts,
            kLogNames,
            kSlotsPerRank,
            kBatch,
            kContainer,
            kFiles,
            kShell,
            kTorchDist,
            kLongRows,
            kLoraLayers,
            kLoraFrom,
            kSpikes,
            kExports,
            kStages,
            kOffload,
            kActivationOffload,
            kGpuLayouts,
            kGpuPacked,
            kTexts,
            kContext,
            kOffloadFraction,
            kExperts};
}

}  // namespace roll::spec
