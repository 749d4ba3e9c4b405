// Whether two tokenizers speak of the same tokens by the same ids.
#pragma once

#include <cstdint>

#include "worker/tokenizer/tokenizer.hpp"

namespace roll::tokenizer {

struct IdsCompared {
    std::uint32_t looked_at = 0;  // ids that both have: all of them, or some thousands evenly
    std::uint32_t differ = 0;     // which stand for another text

    // A few tokens may have been named anew on purpose; no more than a tenth.
    bool of_one_vocabulary() const { return 10 * differ <= looked_at; }
};

IdsCompared compare_ids(const Tokenizer& one, const Tokenizer& other);

}  // namespace roll::tokenizer
