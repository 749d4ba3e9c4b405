// The ids put before and after one text's ids: the `post_processor` of a tokenizer file. Supports
// TemplateProcessing, ByteLevel (which only moves offsets) and Sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "common/json.hpp"

namespace roll::tokenizer {

struct PostProcessor {
    std::vector<std::uint32_t> before = {};
    std::vector<std::uint32_t> after = {};

    // Fails with InvalidArgument and the name of an unsupported kind or template.
    static Result<PostProcessor> parse(const Json& json);
};

}  // namespace roll::tokenizer
