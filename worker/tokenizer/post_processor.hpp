// The `post_processor` of a tokenizer file: the ids to put before and after the ids of a text.
// Supports TemplateProcessing, ByteLevel (which only moves offsets) and Sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "common/json.hpp"

namespace roll::tokenizer {

struct PostProcessor {
    std::vector<std::uint32_t> before = {};
    std::vector<std::uint32_t> after = {};

    // Parses the file's post-processor. Fails with InvalidArgument for an unsupported kind or
    // template; the message names the kind or template.
    static Result<PostProcessor> parse(const Json& json);
};

}  // namespace roll::tokenizer
