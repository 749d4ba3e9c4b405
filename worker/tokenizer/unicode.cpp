#include "worker/tokenizer/unicode.hpp"

#include <cstring>

#include "worker/tokenizer/unicode_tables.hpp"

namespace roll::tokenizer {
namespace {

constexpr std::size_t kCodePoints = 0x110000;

struct Range {
    char32_t first;
    char32_t last;
};

constexpr Range kSpaces[] = {{0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                             {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                             {0x205F, 0x205F}, {0x3000, 0x3000}};
// Circled letters. They are alphabetic, although their category is a symbol.
constexpr Range kAlphabeticSymbols[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
constexpr Range kNumericSince17[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};

// Returns the size in bytes of the UTF-8 sequence at `at` if it is complete and valid. Otherwise
// returns -n, where n is the number of bytes that one U+FFFD replaces.
int sequence(const std::uint8_t* at, std::size_t left) {
    const std::uint8_t lead = at[0];
    if (lead < 0x80) return 1;
    if (lead < 0xC2 || lead > 0xF4) return -1;
    const int size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const std::uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const std::uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    for (int i = 1; i < size; ++i) {
        if (static_cast<std::size_t>(i) >= left) return -i;
        const bool fits = i == 1 ? at[1] >= low && at[1] <= high : (at[i] & 0xC0) == 0x80;
        if (!fits) return -i;
    }
    return size;
}

}  // namespace

PropertyTable::PropertyTable() : values_(kCodePoints) {
    for (std::size_t i = 0; i < kCategoryRuns_size; ++i) {
        const std::size_t begin = kCategoryRuns[i] >> 8;
        const std::size_t end =
            i + 1 < kCategoryRuns_size ? kCategoryRuns[i + 1] >> 8 : kCodePoints;
        std::memset(&values_[begin], static_cast<int>(kCategoryRuns[i] & 0xFF), end - begin);
    }
    for (const Range& range : kSpaces)
        for (char32_t code = range.first; code <= range.last; ++code) values_[code] |= 0x80;
    for (const Range& range : kAlphabeticSymbols)
        for (char32_t code = range.first; code <= range.last; ++code) values_[code] |= 0x40;
}

const PropertyTable& PropertyTable::get() {
    // built at run time, because the table is too large for the source text
    static const PropertyTable table;
    return table;
}

bool is_numeric(char32_t code, const PropertyTable& table) {
    if ((table.of(code) & kNumber) != 0) return true;
    for (const Range& range : kNumericSince17)
        if (code >= range.first && code <= range.last) return true;
    return false;
}

char32_t next_code_point(const char*& at) {
    const auto byte = [&](int i) {
        return static_cast<char32_t>(static_cast<std::uint8_t>(at[i]));
    };
    const std::size_t size = character_size(*at);
    char32_t code = byte(0);
    if (size == 2) code = (code & 0x1F) << 6 | (byte(1) & 0x3F);
    if (size == 3) code = (code & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (size == 4) {
        code =
            (code & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    }
    at += size;
    return code;
}

void append_utf8(std::string& text, char32_t code) {
    const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
    if (code < 0x80) return put(code);
    if (code < 0x800) {
        put(0xC0 | code >> 6);
    } else if (code < 0x10000) {
        put(0xE0 | code >> 12);
        put(0x80 | (code >> 6 & 0x3F));
    } else {
        put(0xF0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3F));
        put(0x80 | (code >> 6 & 0x3F));
    }
    put(0x80 | (code & 0x3F));
}

std::size_t valid_prefix(std::string_view text) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(text.data());
    std::size_t at = 0;
    while (at < text.size()) {
        std::uint64_t eight = 0;
        while (at + 8 <= text.size()) {
            std::memcpy(&eight, bytes + at, 8);
            if ((eight & 0x8080808080808080U) != 0) break;
            at += 8;
        }
        if (at == text.size()) break;
        const int size = sequence(bytes + at, text.size() - at);
        if (size < 0) return at;
        at += static_cast<std::size_t>(size);
    }
    return text.size();
}

std::string replace_broken(std::string_view text) {
    std::string result;
    while (true) {
        const std::size_t valid = valid_prefix(text);
        result.append(text.substr(0, valid));
        if (valid == text.size()) return result;
        text.remove_prefix(valid);
        const int size = sequence(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
        append_utf8(result, 0xFFFD);
        text.remove_prefix(static_cast<std::size_t>(-size));
    }
}

}  // namespace roll::tokenizer
