// Sampling text from a model of bytes.
#pragma once

#include <filesystem>
#include <string>

#include "worker/train/model/generate.hpp"

namespace roll::train {

struct TextOptions {
    std::int64_t max_tokens = 64;
    double temperature = 0;
    std::uint64_t seed = 1;
};

// What the model adds to the prompt; an empty prompt stands for a new line. Any bytes.
std::string continue_text(Chunk& model, const std::string& prompt, const TextOptions& options);

// The same from a HuggingFace or MCA directory, in float32. Throws RankFailure.
std::string generate_text(const std::filesystem::path& directory, const std::string& prompt,
                          const TextOptions& options);

}  // namespace roll::train
