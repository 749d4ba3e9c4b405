// Whether a job's tokenizer is the one that its weights were trained with.
#pragma once

#include <filesystem>
#include <string>

#include "common/json.hpp"
#include "worker/tokenizer/directory.hpp"

namespace roll::train {

// The directory that weights come from, with its HuggingFace config.
struct WeightsHome {
    std::filesystem::path directory;
    const Json& hf_config;
};

// What the user should know of a tokenizer, called `name` by the job, that is not the one beside
// the weights; empty if it is, or if there is none beside them. Throws RankFailure(invalid) if it
// is one of another vocabulary: what the weights know of their ids would mean nothing.
std::string check_tokenizer(const tokenizer::TextTokenizer& tokenizer, const std::string& name,
                            const WeightsHome& weights);

}  // namespace roll::train
