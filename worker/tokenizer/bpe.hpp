// Byte pair encoding of one word: the `model` of a tokenizer file. Pairs of tokens merge in the
// order of the file's merges, and equal pairs from left to right, until no pair can merge. A
// character that the vocabulary lacks is replaced by its bytes (byte_fallback), by the unknown
// token, or by nothing, as the file determines. Immutable; several threads may encode, each with
// its own BpeWork.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/hash.hpp"
#include "common/json.hpp"

namespace roll::tokenizer {

// Maps a byte to the visible character that stands for it in byte-level vocabularies. Printable
// Latin-1 bytes map to themselves. All other bytes map to the code points from 256 on.
const std::array<std::string, 256>& visible_bytes();

// Returns the bytes that a byte-level token represents. Returns nullopt if a character of the token
// stands for no byte.
std::optional<std::string> spelled_bytes(const std::string& token);

// U+2581, the character that stands for a space in SentencePiece vocabularies
inline constexpr std::string_view kVisibleSpace = "\xE2\x96\x81";

struct Merge {
    std::uint32_t rank = 0;
    std::uint32_t id = 0;
};

// A hash table with open addressing. It maps a pair of adjacent ids to the merge of this pair. At
// most half of its slots are used.
class MergeTable {
  public:
    explicit MergeTable(std::size_t count = 0);
    void put(std::uint32_t left, std::uint32_t right, Merge merge);
    const Merge* find(std::uint32_t left, std::uint32_t right) const;

  private:
    struct Slot {
        std::uint64_t pair = kFree;
        Merge merge = {};
    };
    static constexpr std::uint64_t kFree = static_cast<std::uint64_t>(-1);
    std::size_t place(std::uint64_t pair) const { return pair * 0x9E3779B97F4A7C15U >> shift_; }
    unsigned shift_ = 63;
    std::vector<Slot> slots_;
};

// The scratch memory of one encoding thread: a cache of recent words, and buffers that keep their
// capacity.
class BpeWork {
  public:
    BpeWork();

  private:
    friend class Bpe;
    static constexpr std::size_t kWordMax = 30;
    static constexpr std::size_t kIdsMax = 8;
    struct Seen {
        std::uint8_t size = 0;  // size of `word` in bytes; 0 if the slot is free
        std::uint8_t count = 0;
        std::array<char, kWordMax> word = {};
        std::array<std::uint32_t, kIdsMax> ids = {};
    };
    struct Symbol {
        std::uint32_t id = 0;
        std::int32_t previous = -1;
        // index of the next symbol; kGone if this symbol was merged into another symbol
        std::int32_t next = -1;
    };
    struct Candidate {
        std::uint32_t rank = 0;
        std::int32_t place = 0;
        std::uint32_t id = 0;
    };
    std::vector<Seen> seen_;
    std::vector<std::uint32_t> ids_;
    std::vector<Merge> merges_;
    std::vector<Symbol> symbols_;
    std::vector<Candidate> heap_;
};

class Bpe {
  public:
    // Parses the model. If `byte_level` is true, the vocabulary represents bytes by visible
    // characters. Fails with InvalidArgument for an unsupported part, and with Corrupt for an
    // invalid part; the message names the part.
    static Result<Bpe> parse(const Json& json, bool byte_level);

    // Appends the word's ids. `word` must not be empty and must be valid UTF-8.
    void encode(std::string_view word, BpeWork& work, std::vector<std::uint32_t>& out) const;

    std::optional<std::uint32_t> id_of(std::string_view token) const;
    const std::string* token_of(std::uint32_t id) const;  // returns null if no token has this id
    std::uint32_t ids_end() const { return static_cast<std::uint32_t>(tokens_.size()); }
    std::size_t size() const { return ids_.size(); }

  private:
    using Ids = std::unordered_map<std::string, std::uint32_t, TextHash, std::equal_to<>>;

    Result<void> read_vocabulary(const Json& json);
    Result<void> read_merges(const Json& json);
    void index_words(bool byte_level);
    bool never_merges_over_spaces() const;
    void encode_part(std::string_view part, BpeWork& work, std::vector<std::uint32_t>& out) const;
    void spell(std::string_view word, std::vector<std::uint32_t>& ids) const;
    void spell_missing(std::string_view symbol, int& unknown,
                       std::vector<std::uint32_t>& ids) const;
    void merge_short(BpeWork& work) const;
    void merge_long(BpeWork& work) const;

    Ids ids_;
    std::vector<const std::string*> tokens_;
    MergeTable merges_;
    // All tokens if the file sets ignore_merges, that is, if a word that is a token is not split;
    // else empty.
    Ids words_;
    // bytes_[b]: id of the symbol for byte b, or of the ASCII character b; -1 if there is none
    std::array<std::int64_t, 256> bytes_{};
    // fallback_[b]: id of the token <0xXX> for byte b; -1 if there is none
    std::array<std::int64_t, 256> fallback_{};
    std::optional<std::uint32_t> unknown_;
    bool byte_level_ = false;
    bool byte_fallback_ = false;
    bool fuse_unknown_ = false;
    bool cut_at_spaces_ = false;
};

}  // namespace roll::tokenizer
