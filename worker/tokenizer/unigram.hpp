// The unigram language model of SentencePiece on one word: of all ways to cut it into tokens, the
// one whose scores add up to the most. Characters that no token holds are unknown: runs of them
// become their bytes (byte_fallback) or one unknown token. Immutable; any thread may encode, each
// with a UnigramWork of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/json.hpp"

namespace roll::tokenizer {

// The best way to each place of a word that one thread is at.
class UnigramWork {
  private:
    friend class Unigram;
    struct Best {
        double score = 0;
        std::int64_t start = -1;  // of the last token; -1: no way here
        std::int64_t id = -1;     // -1: unknown
    };
    std::vector<Best> ends_;
    std::vector<std::pair<std::size_t, std::size_t>> pieces_;
};

class Unigram {
  public:
    // Error InvalidArgument or Corrupt: what the model has that is not right.
    static Result<Unigram> parse(const Json& json);

    // Appends the word's ids. REQUIRES: a word that is not empty, of valid UTF-8.
    void encode(std::string_view word, UnigramWork& work, std::vector<std::uint32_t>& out) const;

    std::optional<std::uint32_t> id_of(std::string_view token) const;
    const std::string* token_of(std::uint32_t id) const;  // null: no token has this id
    std::uint32_t ids_end() const { return static_cast<std::uint32_t>(tokens_.size()); }
    std::size_t size() const { return tokens_.size(); }

  private:
    Result<void> add(const Json& entry);
    void find_best(std::string_view word, UnigramWork& work) const;
    void append(std::string_view piece, std::vector<std::uint32_t>& out) const;

    static std::uint64_t edge(std::uint32_t node, char byte) {
        return std::uint64_t{node} << 8 | static_cast<std::uint8_t>(byte);
    }

    std::vector<std::string> tokens_;
    std::vector<double> scores_;
    std::unordered_map<std::string, std::uint32_t> ids_;
    std::vector<std::int64_t> nodes_ = {-1};  // of the tokens' trie: the one that ends here; -1
    std::unordered_map<std::uint64_t, std::uint32_t> edges_;
    std::int64_t unknown_ = -1;
    double unknown_score_ = 0;
    bool byte_fallback_ = false;
};

}  // namespace roll::tokenizer
