// UTF-8, and the properties of code points in Unicode 16. This file does not depend on tokenizers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace roll::tokenizer {

struct CodeRange {
    char32_t first;
    char32_t last;
};

// General categories.
// clang-format off
enum class Category : std::uint8_t {
    Lu, Ll, Lt, Lm, Lo, Mn, Mc, Me, Nd, Nl, No, Pc, Pd, Ps, Pe,
    Pi, Pf, Po, Sm, Sc, Sk, So, Zs, Zl, Zp, Cc, Cf, Cs, Co, Cn
};
// clang-format on

// A set of properties of a code point. Bit i is Category i; bits 30 and 31 are other properties.
using Properties = std::uint32_t;
constexpr Properties bit(Category category) { return 1U << static_cast<unsigned>(category); }
// property: the code point is alphabetic, although its category is a symbol
constexpr Properties kOtherAlphabetic = 1U << 30;
constexpr Properties kSpace = 1U << 31;  // property: White_Space
constexpr Properties kLetter = 0x1F;
constexpr Properties kMark = 0x7 << 5;
constexpr Properties kNumber = 0x7 << 8;
constexpr Properties kPunctuation = 0x7F << 11;
constexpr Properties kSymbol = 0xF << 18;
constexpr Properties kWord =
    kLetter | kMark | bit(Category::Nd) | bit(Category::Nl) | bit(Category::Pc) | kOtherAlphabetic;

// The properties of every code point, in a table of 1.1 MB that is made once. Immutable; any
// thread may read it.
class PropertyTable {
  public:
    static const PropertyTable& get();
    Properties of(char32_t code) const {
        const std::uint8_t value = values_[code];
        return 1U << (value & 0x1F) | (value & 0x40 ? kOtherAlphabetic : 0) |
               (value & 0x80 ? kSpace : 0);
    }

  private:
    PropertyTable();
    // values_[c]: the category of code point c | 0x40 if other alphabetic | 0x80 if white space
    std::vector<std::uint8_t> values_;
};

// Returns true if the Digits pre-tokenizer treats the code point as a digit: \p{N} of Unicode 17.
bool is_numeric(char32_t code, const PropertyTable& table);

// Returns the code point at `at` and advances `at` to the next code point. A complete and valid
// UTF-8 sequence must start at `at`.
char32_t next_code_point(const char*& at);
void append_utf8(std::string& text, char32_t code);

// Returns the size in bytes of the character that starts with this byte of valid UTF-8.
constexpr std::size_t character_size(char lead) {
    const auto byte = static_cast<std::uint8_t>(lead);
    return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// Returns the offset of the first byte that is not valid UTF-8. Returns the text's size if all
// bytes are valid.
std::size_t valid_prefix(std::string_view text);

// Replaces each maximal part of an invalid UTF-8 sequence by one U+FFFD, as section 3.9 of Unicode
// 16 recommends.
std::string replace_broken(std::string_view text);

}  // namespace roll::tokenizer
