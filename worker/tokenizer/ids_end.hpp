// How many rows an embedding needs for a tokenizer.json, by a scan of its text: nothing of it is
// built, so it takes a hundredth of the time that loading it does.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/error.hpp"

namespace roll::tokenizer {

// One more than the largest id, as Tokenizer::vocab_size() of the same text has it. Corrupt: it is
// no JSON of a tokenizer. A part that is not built is not noticed.
Result<std::uint32_t> ids_end(std::string_view json);

}  // namespace roll::tokenizer
