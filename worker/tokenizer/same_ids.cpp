#include "worker/tokenizer/same_ids.hpp"

#include <algorithm>

#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {
namespace {

constexpr std::uint32_t kLookedAt = 4096;

// Returns a token's text. Replaces incomplete characters in the text, because tokenizers decode
// such characters differently.
std::string text_of(const Tokenizer& tokenizer, std::uint32_t id) {
    return replace_broken(tokenizer.decode(std::span(&id, 1)));
}

}  // namespace

IdsCompared compare_ids(const Tokenizer& one, const Tokenizer& other) {
    const std::uint32_t both = std::min(one.vocab_size(), other.vocab_size());
    const std::uint32_t step = std::max((both + kLookedAt - 1) / kLookedAt, 1U);
    IdsCompared compared;
    for (std::uint32_t id = 0; id < both; id += step) {
        const std::string text = text_of(one, id), others = text_of(other, id);
        // skip an id that one of the tokenizers does not use
        if (text.empty() || others.empty()) continue;
        ++compared.looked_at;
        compared.differ += text != others;
    }
    return compared;
}

}  // namespace roll::tokenizer
