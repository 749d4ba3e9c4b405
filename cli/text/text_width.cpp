#include "cli/text/text_width.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <utf8proc.h>

#include "common/split.hpp"

namespace roll::cli {
namespace {

// Removes the first character from `text` and returns its code point. Returns U+FFFD for a byte
// that is not UTF-8.
utf8proc_int32_t take_character(std::string_view& text) {
    utf8proc_int32_t point = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &point);
    text.remove_prefix(size > 0 ? static_cast<std::size_t>(size) : 1);
    return size > 0 ? point : 0xFFFD;
}

// Characters of a newer Unicode than utf8proc's take one column.
std::size_t columns_of(utf8proc_int32_t point) {
    if (utf8proc_category(point) == UTF8PROC_CATEGORY_CN) return 1;
    return static_cast<std::size_t>(utf8proc_charwidth(point));
}

// Removes an escape sequence from the beginning of `text`, which begins with ESC. Returns the
// sequence. If the sequence has no end, takes at most the rest of the line.
std::string_view take_escape(std::string_view& text) {
    const std::string_view all = text;
    const auto take = [&](char least, char most, std::size_t count = std::string_view::npos) {
        for (; count > 0 && !text.empty() && text[0] >= least && text[0] <= most; --count)
            text.remove_prefix(1);
    };
    text.remove_prefix(1);
    if (text.starts_with('[')) {
        text.remove_prefix(1);
        take(' ', '?');
        take('@', '~', 1);
    } else if (text.starts_with(']')) {  // this sequence ends at BEL or at ESC backslash
        text.remove_prefix(std::min(text.find_first_of("\a\x1b\n"), text.size()));
        for (const std::string_view end : {"\a", "\x1b\\"})
            if (text.starts_with(end)) text.remove_prefix(end.size());
    } else {
        take(' ', '/');
        take('0', '~', 1);
    }
    return all.substr(0, all.size() - text.size());
}

// Returns whether the escape sequence sets colours (ESC [ ... m) or, with Keep::Progress, clears a
// line (ESC [ K).
bool keeps_escape(std::string_view sequence, Keep keep) {
    constexpr std::string_view kStart = "\x1b[";
    if (!sequence.starts_with(kStart) || sequence.size() == kStart.size()) return false;
    const char end = sequence.back();
    if (end != 'm' && (end != 'K' || keep != Keep::Progress)) return false;
    const std::string_view inner = sequence.substr(kStart.size());
    return inner.find_first_not_of("0123456789;:") == inner.size() - 1;
}

}  // namespace

std::size_t columns_of(std::string_view text) {
    std::size_t columns = 0;
    while (!text.empty()) columns += columns_of(take_character(text));
    return columns;
}

std::string first_columns(std::string_view text, std::size_t columns) {
    std::string_view rest = text;
    std::size_t kept = 0;
    while (!rest.empty()) {
        const std::size_t more = columns_of(take_character(rest));
        if (more > columns) break;
        columns -= more;
        kept = text.size() - rest.size();
    }
    return std::string(text.substr(0, kept));
}

std::string fit_text(std::string_view text, std::size_t columns) {
    if (text.size() <= columns || columns_of(text) <= columns) return std::string(text);
    return columns == 0 ? "" : first_columns(text, columns - 1) + "+";
}

std::string pad_text(std::string text, std::size_t columns, bool right) {
    const std::size_t own = columns_of(text);
    const std::string blanks(columns > own ? columns - own : 0, ' ');
    return right ? blanks + text : text + blanks;
}

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines = split_at(text, '\n');
    if (lines.back().empty()) lines.pop_back();
    return lines;
}

std::string harmless(std::string_view text) {
    std::string kept;
    while (!text.empty()) {
        const char c = text[0];
        const auto byte = static_cast<unsigned char>(c);
        if (c == '\x1b') {
            take_escape(text);
            continue;
        }
        if (c == '\n' && !kept.empty() && text.size() > 1) kept += ' ';
        if (c == '\t') kept.append(8 - columns_of(kept) % 8, ' ');
        if (byte >= 0x20 && byte < 0x7F) kept += c;
        if (byte >= 0x80) {
            std::string_view rest = text;
            const utf8proc_int32_t point = take_character(rest);
            const std::size_t size = text.size() - rest.size();
            if (point == 0xFFFD && size == 1)
                kept += '?';
            else if (point >= 0xA0)
                kept.append(text.substr(0, size));
            text.remove_prefix(size);
            continue;
        }
        text.remove_prefix(1);
    }
    return kept;
}

std::string printable(std::string_view text, Keep keep) {
    const std::string_view kept_controls = keep == Keep::Progress ? "\n\t\r\b" : "\n\t";
    std::string kept;
    kept.reserve(text.size());
    while (!text.empty()) {
        const auto byte = static_cast<unsigned char>(text[0]);
        if (byte == 0x1b) {
            const std::string_view sequence = take_escape(text);
            if (keeps_escape(sequence, keep)) kept += sequence;
            continue;
        }
        // U+0080 to U+009F are control characters, too. U+009B is another form of ESC [.
        const bool c1 = byte == 0xC2 && text.size() > 1 &&
                        static_cast<unsigned char>(text[1]) >= 0x80 &&
                        static_cast<unsigned char>(text[1]) < 0xA0;
        const bool control = byte < 0x20 || byte == 0x7F;
        if (!c1 && (!control || kept_controls.find(text[0]) != kept_controls.npos)) kept += text[0];
        text.remove_prefix(c1 ? 2 : 1);
    }
    return kept;
}

std::string escaped_json(std::string_view text) {
    std::string escaped;
    escaped.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        const int byte = static_cast<unsigned char>(text[i]);
        const int next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
        const bool c1 = byte == 0xC2 && next >= 0x80 && next < 0xA0;
        if (c1 || byte == 0x7F)
            escaped += fmt::format("\\u{:04x}", c1 ? next : byte);
        else
            escaped += text[i];
        if (c1) ++i;
    }
    return escaped;
}

}  // namespace roll::cli
