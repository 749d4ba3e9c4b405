// Generates text one token at a time, with cached keys and values.
//
// Several ranks may hold the model: the stages of a pipeline, the ranks of a tensor-parallel group,
// and the ranks that share weights (ZeRO-3). Each rank computes with its own part, and caches the
// keys and values of its own layers and heads. No rank needs the whole model. All of these ranks
// must call generate() with the same arguments, and all get the tokens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "worker/tokenizer/directory.hpp"
#include "worker/train/model/text_decoder.hpp"

namespace roll::train {

struct GenerateOptions {
    std::int64_t max_tokens = 64;
    double temperature = 0;  // sampling temperature; 0: always choose the most likely token
    // Limits the choice to the most likely tokens that together have this probability or more.
    double top_p = 1;
    std::uint64_t seed = 1;  // seed of the draws; equal seeds draw equal tokens
    std::vector<std::int64_t> stop_tokens = {};
    // if above 0, only tokens with lower ids are chosen
    std::int64_t ids = 0;
};

// Returns the tokens that follow the prompt, without the stop token. Returns at most max_tokens
// tokens, and fewer if the model's positions_max is reached. If the prompt is too long, drops its
// first tokens. Requires that `prompt` is not empty.
std::vector<std::int64_t> generate(const TextModel& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options);

// Returns the text with which the model continues `prompt`, up to a stop token. If `prompt` is
// empty, the model continues the tokens that the tokenizer puts before a text. If there are no such
// tokens, the model continues a newline. Sets `stop_tokens` and `ids` from the tokenizer. All ranks
// that hold the model must call this function, as generate() says.
std::string continue_text(const TextModel& model, const tokenizer::TextTokenizer& tokenizer,
                          const std::string& prompt, GenerateOptions options);

// Like continue_text(), for the model in a HuggingFace or MCA directory. Computes in float32.
// Throws RankFailure.
std::string generate_text(const std::filesystem::path& directory, const std::string& prompt,
                          const GenerateOptions& options);

}  // namespace roll::train
