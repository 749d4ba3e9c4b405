// From a job's `model` to what the trainer builds.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/json.hpp"
#include "common/spec/model.hpp"
#include "common/spec/train.hpp"
#include "worker/tokenizer/directory.hpp"
#include "worker/train/model/chunk.hpp"

namespace roll::train {

struct ModelSetup {
    Json hf_config;  // whole: what the exported config.json is made from
    Json native;     // Megatron's fields
    spec::ModelConfig config;
    std::shared_ptr<const tokenizer::TextTokenizer> tokenizer;    // null: the directory has none
    std::vector<std::pair<std::string, std::string>> companions;  // files beside it: name, content
    std::vector<std::string> warnings = {};  // of what looks wrong and may be meant
};

// Of a model that starts from a directory, what the first of the job's own checkpoints that opens
// says, else the directory; of a tokenizer's directory that is gone likewise: a job can go on
// without what it started from. Throws RankFailure(invalid) with what is wrong in the job's sizes,
// or a tokenizer whose ids are not those of the directory's own.
ModelSetup setup_model(const spec::TrainSpec& spec,
                       const std::vector<std::filesystem::path>& checkpoints);

// The tokenizer alone that the job's text is read with. Throws RankFailure(invalid).
std::shared_ptr<const tokenizer::TextTokenizer> job_tokenizer(const spec::TrainSpec& spec);

// Throws RankFailure(invalid) if a checkpoint's tensors are not those of the job's model, naming
// the keys of the config that differ, with what was expected and what was found; or if its
// tokenizer is of another vocabulary than the job's, `tokenizer`. Returns a warning, or nothing.
std::string check_same_model(const std::filesystem::path& checkpoint, const ModelSetup& job,
                             const std::string& tokenizer);

// The model of a HuggingFace or MCA directory, with its tokenizer if it has one.
ModelSetup setup_model(const std::filesystem::path& directory);

}  // namespace roll::train
