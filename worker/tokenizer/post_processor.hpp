// What is put around the ids of one text: the `post_processor` of a tokenizer file. Built are
// TemplateProcessing, ByteLevel (which moves offsets only) and Sequence.
#pragma once

#include <cstdint>
#include <vector>

#include "common/json.hpp"

namespace roll::tokenizer {

struct PostProcessor {
    std::vector<std::uint32_t> before = {};
    std::vector<std::uint32_t> after = {};

    // Error InvalidArgument: a kind or a template that is not built, by name.
    static Result<PostProcessor> parse(const Json& json);
};

}  // namespace roll::tokenizer
