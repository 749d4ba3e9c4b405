// Builds the trainer's description of the model from a job's `model`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/json.hpp"
#include "common/spec/train/model.hpp"
#include "common/spec/train/train.hpp"
#include "worker/families/native_tensor.hpp"
#include "worker/plan/cost.hpp"
#include "worker/tokenizer/directory.hpp"
#include "worker/train/model/chunk.hpp"

namespace roll::train {

struct ModelSetup {
    Json hf_config;  // complete HuggingFace config, from which the exported config.json is made
    Json native;     // fields of the native (Megatron) config
    spec::ModelConfig config;
    // null if there is no tokenizer in the model's directory
    std::shared_ptr<const tokenizer::TextTokenizer> tokenizer;
    // further files to copy into checkpoints: name, content
    std::vector<std::pair<std::string, std::string>> companions;
    std::vector<std::string> warnings = {};  // settings that look wrong but may be intended
    std::string base = {};                   // model.from of a LoRA job
    std::vector<std::string> adapters = {};  // model.adapters of a LoRA job
};

// Returns the model of a job. If the model starts from a directory, reads it from the first of the
// job's own checkpoints that can be opened, or else from that directory. If the tokenizer's
// directory no longer exists, reads the tokenizer from a checkpoint. Therefore, a job can continue
// after its start directory is gone. A LoRA job cannot, because its checkpoints hold only the
// adapter.
//
// If `config_suffices`, a HuggingFace directory needs no weights. Throws RankFailure(invalid) if
// the job's sizes are wrong, or if the tokenizer's ids differ from the ids of the tokenizer in the
// model's directory.
ModelSetup setup_model(const spec::TrainSpec& spec,
                       const std::vector<std::filesystem::path>& checkpoints,
                       bool config_suffices = false);

// Returns only the tokenizer for the job's text. Throws RankFailure(invalid).
std::shared_ptr<const tokenizer::TextTokenizer> job_tokenizer(const spec::TrainSpec& spec);

// Compares a checkpoint with the job. `tokenizer`: the job's tokenizer. Returns a warning, or an
// empty string. Throws RankFailure(invalid) if the checkpoint's tokenizer has another vocabulary,
// or if the checkpoint's tensors are not those of the job's model. If the tensors differ, the
// message lists the config keys with the expected and the found values.
std::string check_same_model(const std::filesystem::path& checkpoint, const ModelSetup& job,
                             const std::string& tokenizer);

// Returns the model's tensors. Each entry lists the HuggingFace tensors of which the tensor
// consists.
std::vector<families::NativeTensor> native_tensors(const ModelSetup& model);

// Returns the token that a reward model ignores at the end of an answer; -1 if there is none, or if
// the model is not a reward model.
std::int64_t padding_of(const ModelSetup& model);

// Returns the model of a HuggingFace or MCA directory, with the directory's tokenizer, if there is
// one.
ModelSetup setup_model(const std::filesystem::path& directory);

// Returns the number of elements of the parameters that model.freeze or LoRA freezes. Throws
// RankFailure(invalid) if a pattern in `freeze` matches no parameter, or if no parameter is left to
// train.
std::int64_t count_frozen(const std::vector<std::string>& freeze,
                          std::span<const ParameterSpec> specs);

// Returns the work that backward does not do, because parameters of the job are frozen. Does not
// count vectors, or an embedding that is used only for lookup.
plan::Untrained untrained_of(const spec::TrainSpec& spec, const spec::ModelConfig& model);

// returns the name that a job file uses: "fp32", "fp64", "bf16" or "fp16"
const char* name_of(spec::Precision precision);
at::ScalarType dtype_of(spec::Precision precision);
// Returns the number type to which the job's export rounds the weights; nullopt if the export does
// not round.
std::optional<at::ScalarType> export_rounds_to(const spec::TrainSpec& spec);

}  // namespace roll::train
