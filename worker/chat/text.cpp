#include "worker/chat/text.hpp"

#include <algorithm>

#include <utf8proc.h>

namespace roll::chat {
namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Calls `visit` with each character until `visit` returns false. Returns false if `visit` returned
// false.
template <class Visit>
bool each(std::string_view text, const Visit& visit) {
    while (!text.empty()) {
        const std::size_t size = character_size(text);
        if (!visit(first_character(text))) return false;
        text.remove_prefix(size);
    }
    return true;
}

void append(std::string& text, char32_t character) {
    utf8proc_uint8_t bytes[4];
    const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(size));
}

char32_t low(char32_t c) {
    return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
char32_t high(char32_t c) {
    return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t title(char32_t c) {
    return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}
bool is_letter(char32_t c) {
    const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}
bool is_digit(char32_t c) {
    return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}
bool has_case(char32_t c) { return low(c) != c || high(c) != c; }

// Appends the upper case of a character. The German sharp s becomes two characters, as in Python.
void append_upper(std::string& text, char32_t character) {
    if (character == U'ß')
        text += "SS";
    else
        append(text, high(character));
}

std::vector<std::string_view> split_at_spaces(std::string_view text, std::int64_t most,
                                              bool from_right) {
    std::vector<std::string_view> parts;
    std::string_view rest = strip(text, from_right ? Side::Right : Side::Left);
    while (!rest.empty()) {
        if (most >= 0 && std::ssize(parts) >= most) {
            parts.push_back(strip(rest, from_right ? Side::Right : Side::Left));
            break;
        }
        std::size_t end = 0;
        if (from_right) {
            std::size_t begin = rest.size();
            while (begin > 0) {
                std::size_t at = begin - 1;
                while (at > 0 && continues(rest[at])) --at;
                if (is_space(first_character(rest.substr(at)))) break;
                begin = at;
            }
            parts.push_back(rest.substr(begin));
            rest = strip(rest.substr(0, begin), Side::Right);
            continue;
        }
        while (end < rest.size() && !is_space(first_character(rest.substr(end))))
            end += character_size(rest.substr(end));
        parts.push_back(rest.substr(0, end));
        rest = strip(rest.substr(end), Side::Left);
    }
    return parts;
}

}  // namespace

std::size_t character_size(std::string_view text) {
    const auto lead = static_cast<unsigned char>(text.front());
    const std::size_t size = lead < 0x80U ? 1 : lead < 0xE0U ? 2 : lead < 0xF0U ? 3 : 4;
    return std::min(size, text.size());
}

std::size_t characters(std::string_view text) {
    return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, continues));
}

std::size_t offset_of(std::string_view text, std::size_t character) {
    std::size_t at = 0;
    while (character > 0 && at < text.size()) {
        at += character_size(text.substr(at));
        --character;
    }
    return at;
}

char32_t first_character(std::string_view text) {
    if (static_cast<unsigned char>(text.front()) < 0x80U)
        return static_cast<char32_t>(text.front());
    utf8proc_int32_t found = 0;
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                     static_cast<utf8proc_ssize_t>(text.size()), &found);
    return static_cast<char32_t>(found);
}

bool is_space(char32_t c) {
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        utf8proc_int32_t found = 0;
        const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                           static_cast<utf8proc_ssize_t>(text.size()), &found);
        if (size <= 0) return false;
        text.remove_prefix(static_cast<std::size_t>(size));
    }
    return true;
}

std::string_view strip(std::string_view text, Side side, std::optional<std::string_view> chars) {
    const auto goes = [&](std::string_view character) {
        if (!chars) return is_space(first_character(character));
        return chars->find(character) != std::string_view::npos;
    };
    while (side != Side::Right && !text.empty()) {
        const std::size_t size = character_size(text);
        if (!goes(text.substr(0, size))) break;
        text.remove_prefix(size);
    }
    while (side != Side::Left && !text.empty()) {
        std::size_t at = text.size() - 1;
        while (at > 0 && continues(text[at])) --at;
        if (!goes(text.substr(at))) break;
        text = text.substr(0, at);
    }
    return text;
}

std::vector<std::string_view> split(std::string_view text,
                                    std::optional<std::string_view> separator, std::int64_t most,
                                    bool from_right) {
    std::vector<std::string_view> parts;
    if (!separator) {
        parts = split_at_spaces(text, most, from_right);
    } else {
        while (most < 0 || std::ssize(parts) < most) {
            const std::size_t at = from_right ? text.rfind(*separator) : text.find(*separator);
            if (at == std::string_view::npos) break;
            const std::string_view after = text.substr(at + separator->size());
            parts.push_back(from_right ? after : text.substr(0, at));
            text = from_right ? text.substr(0, at) : after;
        }
        parts.push_back(text);
    }
    if (from_right) std::ranges::reverse(parts);
    return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
    std::vector<std::string_view> lines;
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = first_character(text.substr(at));
        std::size_t size = character_size(text.substr(at));
        const bool ends = (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 ||
                          c == 0x2028 || c == 0x2029;
        if (c == '\r' && text.substr(at + 1).starts_with('\n')) size = 2;
        if (ends) lines.push_back(text.substr(begin, at - begin + (keep_ends ? size : 0)));
        at += size;
        if (ends) begin = at;
    }
    if (begin < text.size()) lines.push_back(text.substr(begin));
    return lines;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to,
                     std::int64_t most) {
    std::string result;
    std::int64_t done = 0;
    std::size_t at = 0;
    if (from.empty()) {  // Python inserts `to` before each character and at the end
        for (; (most < 0 || done < most) && at <= text.size(); ++done) {
            result += to;
            if (at == text.size()) return result;
            const std::size_t size = character_size(text.substr(at));
            result += text.substr(at, size);
            at += size;
        }
        return result += text.substr(at);
    }
    for (; most < 0 || done < most; ++done) {
        const std::size_t found = text.find(from, at);
        if (found == std::string_view::npos) break;
        result.append(text, at, found - at).append(to);
        at = found + from.size();
    }
    return result.append(text, at);
}

std::string lower(std::string_view text) {
    std::string result;
    each(text, [&](char32_t c) { return append(result, low(c)), true; });
    return result;
}

std::string upper(std::string_view text) {
    std::string result;
    each(text, [&](char32_t c) { return append_upper(result, c), true; });
    return result;
}

std::string capitalized(std::string_view text) {
    if (text.empty()) return "";
    const std::size_t size = character_size(text);
    std::string result;
    append(result, title(first_character(text)));
    return result + lower(text.substr(size));
}

std::string titled(std::string_view text) {
    std::string result;
    bool inside = false;
    each(text, [&](char32_t c) {
        append(result, inside ? low(c) : title(c));
        inside = has_case(c);
        return true;
    });
    return result;
}

bool all_digits(std::string_view text) { return !text.empty() && each(text, is_digit); }
bool all_letters(std::string_view text) { return !text.empty() && each(text, is_letter); }
bool all_spaces(std::string_view text) { return !text.empty() && each(text, is_space); }
bool all_letters_or_digits(std::string_view text) {
    return !text.empty() && each(text, [](char32_t c) { return is_letter(c) || is_digit(c); });
}

bool is_lower(std::string_view text) {
    bool found = false;
    return each(text, [&](char32_t c) { return found |= has_case(c), low(c) == c; }) && found;
}

bool is_upper(std::string_view text) {
    bool found = false;
    return each(text, [&](char32_t c) { return found |= has_case(c), high(c) == c; }) && found;
}

}  // namespace roll::chat
