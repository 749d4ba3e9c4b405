// The `post_processor` of a tokenizer file: the ids that are added before and after the ids of a
// text. Supports TemplateProcessing, ByteLevel (which changes only offsets) and Sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "common/json.hpp"

namespace roll::tokenizer {

// The ids that the file's template adds before and after a text.
struct Surroundings {
    std::vector<std::uint32_t> before = {};
    std::vector<std::uint32_t> after = {};

    // Parses the file's post-processor. Fails with InvalidArgument if its kind or template is
    // unsupported; the message names the kind or template.
    static Result<Surroundings> parse(const Json& json);
};

}  // namespace roll::tokenizer
