// Continues a text with a whole model in one chunk, one token at a time over cached keys and
// values.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/train/model/chunk.hpp"

namespace roll::train {

struct GenerateOptions {
    std::int64_t max_tokens = 64;
    double temperature = 0;  // 0: always the likeliest token
    double top_p = 1;        // draw from the likeliest tokens that together have this share
    std::uint64_t seed = 1;  // with a temperature: equal seeds draw equal tokens
    std::vector<std::int64_t> stop_tokens = {};
    std::int64_t ids = 0;  // of the tokenizer, so many are chosen from; 0: all of the model's
};

// The tokens that follow the prompt, the stop token not included. Fewer than max_tokens when the
// model's positions_max is reached; a longer prompt is cut at its front. The prompt is not empty.
std::vector<std::int64_t> generate(Chunk& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options);

}  // namespace roll::train
