#include "worker/tokenizer/unicode.hpp"

#include <cstring>

#include <utf8proc.h>

namespace roll::tokenizer {
namespace {

constexpr std::size_t kCodePoints = 0x110000;

constexpr CodeRange kSpaces[] = {
    {0x09, 0x0D},     {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};
// Circled letters. They are alphabetic, although their category is a symbol.
constexpr CodeRange kAlphabeticSymbols[] = {
    {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}};
constexpr CodeRange kNumericSince17[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};

// Characters that Unicode 16 has and utf8proc does not, or has with another category
struct NewCharacters {
    char32_t first;
    char32_t last;
    Category category;
};
using enum Category;
constexpr NewCharacters kSince15[] = {
    {0x897, 0x897, Mn},     {0x1B4E, 0x1B4F, Po},   {0x1B7F, 0x1B7F, Po},   {0x1C89, 0x1C89, Lu},
    {0x1C8A, 0x1C8A, Ll},   {0x2427, 0x2429, So},   {0x2FFC, 0x2FFF, So},   {0x31E4, 0x31E5, So},
    {0x31EF, 0x31EF, So},   {0xA7CB, 0xA7CC, Lu},   {0xA7CD, 0xA7CD, Ll},   {0xA7DA, 0xA7DA, Lu},
    {0xA7DB, 0xA7DB, Ll},   {0xA7DC, 0xA7DC, Lu},   {0x105C0, 0x105F3, Lo}, {0x10D40, 0x10D49, Nd},
    {0x10D4A, 0x10D4D, Lo}, {0x10D4E, 0x10D4E, Lm}, {0x10D4F, 0x10D4F, Lo}, {0x10D50, 0x10D65, Lu},
    {0x10D69, 0x10D6D, Mn}, {0x10D6E, 0x10D6E, Pd}, {0x10D6F, 0x10D6F, Lm}, {0x10D70, 0x10D85, Ll},
    {0x10D8E, 0x10D8F, Sm}, {0x10EC2, 0x10EC4, Lo}, {0x10EFC, 0x10EFC, Mn}, {0x11380, 0x11389, Lo},
    {0x1138B, 0x1138B, Lo}, {0x1138E, 0x1138E, Lo}, {0x11390, 0x113B5, Lo}, {0x113B7, 0x113B7, Lo},
    {0x113B8, 0x113BA, Mc}, {0x113BB, 0x113C0, Mn}, {0x113C2, 0x113C2, Mc}, {0x113C5, 0x113C5, Mc},
    {0x113C7, 0x113CA, Mc}, {0x113CC, 0x113CD, Mc}, {0x113CE, 0x113CE, Mn}, {0x113CF, 0x113CF, Mc},
    {0x113D0, 0x113D0, Mn}, {0x113D1, 0x113D1, Lo}, {0x113D2, 0x113D2, Mn}, {0x113D3, 0x113D3, Lo},
    {0x113D4, 0x113D5, Po}, {0x113D7, 0x113D8, Po}, {0x113E1, 0x113E2, Mn}, {0x116D0, 0x116E3, Nd},
    {0x1171E, 0x1171E, Mc}, {0x11BC0, 0x11BE0, Lo}, {0x11BE1, 0x11BE1, Po}, {0x11BF0, 0x11BF9, Nd},
    {0x11F5A, 0x11F5A, Mn}, {0x13460, 0x143FA, Lo}, {0x16100, 0x1611D, Lo}, {0x1611E, 0x16129, Mn},
    {0x1612A, 0x1612C, Mc}, {0x1612D, 0x1612F, Mn}, {0x16130, 0x16139, Nd}, {0x16D40, 0x16D42, Lm},
    {0x16D43, 0x16D6A, Lo}, {0x16D6B, 0x16D6C, Lm}, {0x16D6D, 0x16D6F, Po}, {0x16D70, 0x16D79, Nd},
    {0x18CFF, 0x18CFF, Lo}, {0x1CC00, 0x1CCEF, So}, {0x1CCF0, 0x1CCF9, Nd}, {0x1CD00, 0x1CEB3, So},
    {0x1E5D0, 0x1E5ED, Lo}, {0x1E5EE, 0x1E5EF, Mn}, {0x1E5F0, 0x1E5F0, Lo}, {0x1E5F1, 0x1E5FA, Nd},
    {0x1E5FF, 0x1E5FF, Po}, {0x1F8B2, 0x1F8BB, So}, {0x1F8C0, 0x1F8C1, So}, {0x1FA89, 0x1FA89, So},
    {0x1FA8F, 0x1FA8F, So}, {0x1FABE, 0x1FABE, So}, {0x1FAC6, 0x1FAC6, So}, {0x1FADC, 0x1FADC, So},
    {0x1FADF, 0x1FADF, So}, {0x1FAE9, 0x1FAE9, So}, {0x1FBCB, 0x1FBEF, So}, {0x2EBF0, 0x2EE5D, Lo},
};

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
    // utf8proc's categories have the order of Category, but begin with Cn
    static_assert(UTF8PROC_CATEGORY_LU == 1 + static_cast<int>(Lu) &&
                  UTF8PROC_CATEGORY_CO == 1 + static_cast<int>(Co) && UTF8PROC_CATEGORY_CN == 0);
    for (std::size_t code = 0; code < kCodePoints; ++code) {
        const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
        values_[code] = static_cast<std::uint8_t>(
            category == UTF8PROC_CATEGORY_CN ? static_cast<int>(Cn) : category - 1);
    }
    for (const NewCharacters& range : kSince15)
        for (char32_t code = range.first; code <= range.last; ++code)
            values_[code] = static_cast<std::uint8_t>(range.category);
    for (const CodeRange& range : kSpaces)
        for (char32_t code = range.first; code <= range.last; ++code) values_[code] |= 0x80;
    for (const CodeRange& range : kAlphabeticSymbols)
        for (char32_t code = range.first; code <= range.last; ++code) values_[code] |= 0x40;
}

const PropertyTable& PropertyTable::get() {
    // built at run time, because the table is too large for the source text
    static const PropertyTable table;
    return table;
}

bool is_numeric(char32_t code, const PropertyTable& table) {
    if ((table.of(code) & kNumber) != 0) return true;
    for (const CodeRange& range : kNumericSince17)
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
    utf8proc_uint8_t bytes[4];
    const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
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
