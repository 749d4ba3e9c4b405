// Compares two tokenizers: counts the ids that stand for different texts.
#pragma once

#include <cstdint>

#include "worker/tokenizer/tokenizer.hpp"

namespace roll::tokenizer {

struct IdsCompared {
    // Number of compared ids. In a large vocabulary, only every n-th id is compared, so that this
    // number is at most 4096.
    std::uint32_t looked_at = 0;
    std::uint32_t differ = 0;  // number of compared ids whose texts differ

    // Returns true if at most a tenth of the compared ids differ. A few different ids are normal
    // between two versions of one vocabulary, because a new version may rename tokens.
    bool of_one_vocabulary() const { return 10 * differ <= looked_at; }
};

IdsCompared compare_ids(const Tokenizer& one, const Tokenizer& other);

}  // namespace roll::tokenizer
