// Added tokens, which supplement the model's vocabulary. They are searched for in the text before
// the text is split into words. The leftmost match is used. If several tokens match at the same
// place, the longest is used. There are two passes. Tokens with `normalized` false are searched for
// in the original text, all others in the normalized text. Immutable; any thread may search.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/hash.hpp"
#include "common/json.hpp"
#include "worker/tokenizer/model.hpp"
#include "worker/tokenizer/normalizer.hpp"

namespace roll::tokenizer {

struct AddedToken {
    std::string content;
    std::uint32_t id = 0;
    bool single_word = false;  // true: matches only if no word character is next to the token
    bool lstrip = false;       // true: a match includes the white space before the token
    bool rstrip = false;       // true: a match includes the white space after the token
    bool normalized = false;
    bool special = false;
    // text to search for; it is `content`, in normalized form if `normalized` is true
    std::string spelling = {};
};

// Finds added tokens in a text. AddedTokens has two finders: one for the raw text, and one for the
// normalized text.
class TokenFinder {
  public:
    void add(const AddedToken& token);
    bool empty() const { return tokens_.empty(); }

    // Splits the text into parts and calls piece(begin, end, token) for each part, in order. A part
    // is either one added token, or text between added tokens. `token` is null for text. A token
    // with rstrip includes the white space after it. If the next added token starts in this white
    // space, the two parts may overlap.
    template <class Piece>
    void split(std::string_view text, Piece&& piece) const {
        std::size_t done = 0;
        for (std::size_t at = 0; at < text.size();) {
            const AddedToken* token = starts_[static_cast<std::uint8_t>(text[at])].empty()
                                          ? nullptr
                                          : longest_at(text, at);
            if (token == nullptr) {
                ++at;
                continue;
            }
            std::size_t begin = at;
            at += token->spelling.size();
            std::size_t end = at;
            if (!fits(*token, text, begin, end)) continue;
            widen(*token, text, done, begin, end);
            if (done < begin) piece(done, begin, nullptr);
            piece(begin, end, token);
            done = end;
        }
        if (done < text.size()) piece(done, text.size(), nullptr);
    }

  private:
    const AddedToken* longest_at(std::string_view text, std::size_t at) const;
    static bool fits(const AddedToken& token, std::string_view text, std::size_t begin,
                     std::size_t end);
    static void widen(const AddedToken& token, std::string_view text, std::size_t done,
                      std::size_t& begin, std::size_t& end);

    // tokens by their spelling
    std::unordered_map<std::string, AddedToken, TextHash, std::equal_to<>> tokens_;
    // starts_[b]: sizes in bytes of the spellings that start with byte b, from the largest on
    std::array<std::vector<std::size_t>, 256> starts_;
};

class AddedTokens {
  public:
    // Parses the list added_tokens of a tokenizer file. Assigns ids like the tokenizers package:
    // the model's id of the token or, if the model lacks the token, the next free id. Fails with
    // InvalidArgument if the file gives another id.
    static Result<AddedTokens> parse(const Json& json, const Model& model,
                                     const Normalizer& normalizer);

    const TokenFinder& raw() const { return raw_; }
    const TokenFinder& normalized() const { return normalized_; }
    const std::vector<AddedToken>& all() const { return tokens_; }
    const AddedToken* find(std::uint32_t id) const;  // returns null if no added token has this id

  private:
    std::vector<AddedToken> tokens_;
    std::unordered_map<std::uint32_t, std::size_t> by_id_;
    TokenFinder raw_;
    TokenFinder normalized_;
};

}  // namespace roll::tokenizer
