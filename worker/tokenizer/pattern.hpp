// Regular expressions of tokenizer files. They are compiled, and match at a given place of a text.
//
// Supports alternatives, sets of characters and categories, \s \S \w \d \r \n \t, . , groups (?:)
// (?i:), optional groups, greedy and possessive quantifiers of one character, (?=) and (?!). Fails
// for all other syntax (repeated groups, lazy quantifiers, anchors, back references, scripts),
// because matching must not need a stack that grows with the text. The error message names the
// unsupported part. Immutable; any thread may match.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "common/error.hpp"
#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {

// A set of characters. If `negated` is false, a character beyond ASCII belongs to the set if it has
// one of `properties` or is in one of `ranges`. If `negated` is true, it belongs to the set if
// neither is the case.
struct CharacterSet {
    std::array<bool, 128> ascii{};  // ASCII characters in the set, after negation
    Properties properties = 0;      // properties of the characters beyond ASCII
    std::vector<std::pair<char32_t, char32_t>> ranges = {};
    bool negated = false;

    bool holds(char32_t code, const PropertyTable& table) const;
};

struct PatternNode {
    // The kind of a node:
    // - Set: matches `min` to `max` characters of a set.
    // - Choice: matches the text of the first branch that leads to a match of the whole expression.
    // - Look: matches no text. Its branch must match here or, if `negative`, must not match.
    // - Jump: matches no text. Matching continues at `next`.
    // - Accept: matches no text. The match ends here.
    enum class Kind : std::uint8_t { Set, Choice, Look, Jump, Accept };
    Kind kind = Kind::Accept;
    bool possessive = false;
    bool negative = false;
    std::uint32_t next = 0;
    std::uint32_t set = 0;
    std::uint32_t min = 1;
    std::uint32_t max = 1;
    std::vector<std::uint32_t> branches = {};
};

class Pattern {
  public:
    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    // Compiles an expression. Fails with InvalidArgument if the expression has an unsupported part;
    // the message names the part.
    static Result<Pattern> compile(std::string_view expression);
    static Pattern literal(std::string_view text);

    // Returns the end of the match that starts at `at`. Returns kNone if there is no match or the
    // match is empty. `text` must be valid UTF-8, and a character must start at `at`.
    std::size_t match_at(std::string_view text, std::size_t at) const;

    // Splits the text: calls piece(begin, end, is_match) for every match and for every gap between
    // matches, in order.
    template <class Piece>
    void split(std::string_view text, Piece&& piece) const {
        std::size_t gap = 0;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = match_at(text, at);
            if (end == kNone) {
                at += character_size(text[at]);
                continue;
            }
            if (gap < at) piece(gap, at, false);
            piece(at, end, true);
            gap = at = end;
        }
        if (gap < text.size()) piece(gap, text.size(), false);
    }

  private:
    friend class PatternParser;
    Pattern() = default;
    void index_first_bytes();
    void first_bytes(std::uint32_t node, std::array<bool, 129>& first) const;
    const char* run(std::uint32_t node, const char* at, const char* end) const;
    const char* run_set(const PatternNode& node, const char* at, const char* end) const;
    bool take(const CharacterSet& set, const char*& at) const;

    const PropertyTable* table_ = &PropertyTable::get();
    std::vector<PatternNode> nodes_;
    std::vector<CharacterSet> sets_;
    std::uint32_t root_ = 0;  // root node of the expression; its kind is Choice
    // by_first_byte_[b]: branches of the root that can match a text that starts with byte b. The
    // last entry is for all non-ASCII bytes.
    std::array<std::vector<std::uint32_t>, 129> by_first_byte_;
};

}  // namespace roll::tokenizer
