// Compares a job's tokenizer with the tokenizer of the weights from which the job starts.
#pragma once

#include <filesystem>
#include <string>

#include "common/json.hpp"
#include "worker/tokenizer/directory.hpp"

namespace roll::train {

// The directory of the weights and its HuggingFace config.
struct WeightsHome {
    std::filesystem::path directory;
    const Json& hf_config;
};

// Compares `tokenizer`, which the job calls `name`, with the tokenizer next to the weights. Returns
// a warning if they differ; empty if they are equal, or if the weights have none. Throws
// RankFailure(invalid) if `tokenizer` has another vocabulary, because the trained embeddings would
// then be meaningless.
std::string check_tokenizer(const tokenizer::TextTokenizer& tokenizer, const std::string& name,
                            const WeightsHome& weights);

}  // namespace roll::train
