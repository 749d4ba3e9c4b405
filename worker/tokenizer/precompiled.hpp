// SentencePiece's compiled table of characters and what they become (nmt_nfkc and its like): the
// normalizer `Precompiled` of a tokenizer file. Layout (sentencepiece/src/normalizer.cc): the
// trie's size in bytes as a little-endian u32, the trie as a double array of u32 units
// (darts-clone), then the replacements, each ended by a zero byte. Immutable; any thread may use
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"

namespace roll::tokenizer {

class Precompiled {
  public:
    // From base64, as tokenizer.json holds it. Error InvalidArgument or Corrupt.
    static Result<Precompiled> parse(std::string_view base64);

    // As the tokenizers package does: a grapheme cluster of less than six bytes is looked up whole,
    // and where that finds nothing each character by itself. REQUIRES: valid UTF-8.
    std::string apply(std::string_view text) const;

    // How many of apply(text)'s first bytes stand where the text begins: all that its first
    // character became, which may be several words; 1 where it became part of a cluster's.
    std::size_t head(std::string_view text) const;

  private:
    // What the shortest prefix of the text that the trie holds becomes.
    std::optional<std::string_view> find(std::string_view text) const;

    std::vector<std::uint32_t> trie_;
    std::string replacements_;
};

}  // namespace roll::tokenizer
