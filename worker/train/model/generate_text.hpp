// Samples text from a model with its tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "worker/tokenizer/directory.hpp"
#include "worker/train/model/generate.hpp"

namespace roll::train {

struct TextOptions {
    std::int64_t max_tokens = 64;
    double temperature = 0;
    double top_p = 1;
    std::uint64_t seed = 1;
};

// Returns the text with which the model continues `prompt`, up to a stop token. If `prompt` is
// empty, the model continues the tokens that the tokenizer puts before a text. If there are no such
// tokens, the model continues a newline. All ranks that hold the model must call this function, as
// generate() says.
std::string continue_text(const TextModel& model, const tokenizer::TextTokenizer& tokenizer,
                          const std::string& prompt, const TextOptions& options);

// Like continue_text(), for the model in a HuggingFace or MCA directory. Computes in float32.
// Throws RankFailure.
std::string generate_text(const std::filesystem::path& directory, const std::string& prompt,
                          const TextOptions& options);

}  // namespace roll::train
