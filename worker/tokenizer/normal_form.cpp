#include "worker/tokenizer/normal_form.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include <utf8proc.h>

#include "common/check.hpp"
#include "worker/tokenizer/unicode.hpp"

namespace roll::tokenizer {
namespace {

// The first byte of the UTF-8 form of U+0300, the smallest character that combines with a preceding
// character. If all bytes of a text are smaller, the text is already composed.
constexpr std::uint8_t kFirstCombiningByte = 0xCC;

// Characters that change nothing in Unicode 9, but that utf8proc orders or combines: characters
// that are newer, and U+11A7, which utf8proc 2.8 drops after a Hangul syllable
constexpr CodeRange kInert[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
    {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x11A7, 0x11A7},
    {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},
    {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E},
    {0x11839, 0x1183A}, {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943},
    {0x119E0, 0x119E0}, {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99},
    {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42},
    {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
};

bool is_inert(char32_t code) {
    const auto* const range = std::ranges::lower_bound(kInert, code, {}, &CodeRange::last);
    return range != std::end(kInert) && code >= range->first;
}

void append_composed(std::string& result, const char* begin, const char* end) {
    utf8proc_uint8_t* text = nullptr;
    const auto size =
        utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(begin), end - begin, &text,
                     static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    ROLL_CHECK(size >= 0);
    result.append(reinterpret_cast<const char*>(text), static_cast<std::size_t>(size));
    std::free(text);
}

}  // namespace

std::string composed(std::string_view text) {
    const auto combines = [](char byte) {
        return static_cast<std::uint8_t>(byte) >= kFirstCombiningByte;
    };
    if (std::ranges::none_of(text, combines)) return std::string(text);
    std::string result;
    const char* const end = text.data() + text.size();
    const char* begin = text.data();
    for (const char* at = begin; at < end;) {
        const char* const character = at;
        if (!is_inert(next_code_point(at))) continue;
        append_composed(result, begin, character);
        result.append(character, at);
        begin = at;
    }
    append_composed(result, begin, end);
    return result;
}

}  // namespace roll::tokenizer
