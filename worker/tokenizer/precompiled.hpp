// SentencePiece's compiled table of character replacements (such as nmt_nfkc): the normalizer
// `Precompiled` of a tokenizer file. The table consists of three parts
// (sentencepiece/src/normalizer.cc): the size of the trie in bytes, as a little-endian u32; the
// trie, as a double array of u32 units (darts-clone); the replacements, each terminated by a zero
// byte. Immutable; any thread may use it.
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
    // Parses the base64 text in tokenizer.json. Fails with Corrupt if the text is damaged.
    static Result<Precompiled> parse(std::string_view base64);

    // Returns the text with its characters replaced as in the tokenizers package. A grapheme
    // cluster of less than six bytes is looked up as a whole. If the cluster is longer, or if it is
    // not found, each of its characters is looked up. `text` must be valid UTF-8.
    std::string apply(std::string_view text) const;

    // Returns the number of bytes at the beginning of apply(text) that replace the first character
    // of `text`. Returns 1 if the character was replaced together with other characters of its
    // cluster. Returns 0 if `text` is empty.
    std::size_t head(std::string_view text) const;

  private:
    // Returns the replacement of the shortest prefix of the text that is in the trie; nullopt if no
    // prefix is in the trie.
    std::optional<std::string_view> find(std::string_view text) const;

    std::vector<std::uint32_t> trie_;
    std::string replacements_;
};

}  // namespace roll::tokenizer
