// Computes the rows that an embedding needs for a tokenizer.json by scanning its text. Takes a
// hundredth of the time that loading the tokenizer takes.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/error.hpp"

namespace roll::tokenizer {

// Returns the largest id plus one, equal to Tokenizer::vocab_size() for the same text. Fails with
// Corrupt if it is not a tokenizer's JSON. Does not detect unsupported parts.
Result<std::uint32_t> ids_end(std::string_view json);

}  // namespace roll::tokenizer
