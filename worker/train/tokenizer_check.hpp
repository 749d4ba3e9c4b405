// Compares a job's tokenizer with the one of the weights that it starts from.
#pragma once

#include <filesystem>
#include <string>

#include "common/json.hpp"
#include "worker/tokenizer/directory.hpp"

namespace roll::train {

// The directory of the weights, with its HuggingFace config.
struct WeightsHome {
    std::filesystem::path directory;
    const Json& hf_config;
};

// Returns a warning if the tokenizer, which the job calls `name`, differs from the one next to the
// weights; empty if it does not, or if there is none. Throws RankFailure(invalid) if it has another
// vocabulary, with which the trained embeddings would be meaningless.
std::string check_tokenizer(const tokenizer::TextTokenizer& tokenizer, const std::string& name,
                            const WeightsHome& weights);

}  // namespace roll::train
