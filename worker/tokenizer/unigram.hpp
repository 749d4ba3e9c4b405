// SentencePiece's unigram language model for one word. Selects the split of the word into tokens
// that has the highest sum of scores. Characters that no token covers are unknown. A run of unknown
// characters becomes its bytes (byte_fallback) or one unknown token. Immutable; several threads may
// encode, each with its own UnigramWork.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/json.hpp"

namespace roll::tokenizer {

// Buffers of one thread: the best path to each position in the word that is being encoded.
class UnigramWork {
  private:
    friend class Unigram;
    struct Best {
        double score = 0;
        std::int64_t start = -1;  // start of the path's last token; -1 if there is no path
        std::int64_t id = -1;     // id of the path's last token; -1: the unknown token
    };
    std::vector<Best> ends_;
    std::vector<std::pair<std::size_t, std::size_t>> pieces_;
};

class Unigram {
  public:
    // Parses the model. Fails with InvalidArgument or Corrupt; the message names the invalid part.
    static Result<Unigram> parse(const Json& json);

    // Appends the word's ids. `word` must not be empty and must be valid UTF-8.
    void encode(std::string_view word, UnigramWork& work, std::vector<std::uint32_t>& out) const;

    std::optional<std::uint32_t> id_of(std::string_view token) const;
    const std::string* token_of(std::uint32_t id) const;  // returns null if no token has this id
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
    // nodes_[n]: id of the token that ends at trie node n; -1 if there is none
    std::vector<std::int64_t> nodes_ = {-1};
    std::unordered_map<std::uint64_t, std::uint32_t> edges_;
    std::int64_t unknown_ = -1;
    double unknown_score_ = 0;
    bool byte_fallback_ = false;
};

}  // namespace roll::tokenizer
