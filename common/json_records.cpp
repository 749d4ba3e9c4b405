#include "common/json_records.hpp"

#include <algorithm>

namespace roll {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

std::string_view trimmed(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
    return text.substr(0, text.find_last_not_of(kSpaces) + 1);
}

// Returns the end of a value in a JSON list. The end is the position of the comma after the value,
// or of the bracket that closes the list. Returns text.size() if there is neither. `at` is the
// value's first position, or a position before the value.
std::size_t value_end(std::string_view text, std::size_t at) {
    int depth = 0;
    bool in_string = false;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        if (in_string) {
            if (c == '\\') ++at;
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        if (depth < 0 || (depth == 0 && c == ',')) return at;
    }
    return text.size();
}

}  // namespace

bool is_json_list(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(kSpaces);
    return begin != std::string_view::npos && text[begin] == '[';
}

JsonRecord record_at(std::string_view text, bool list, std::size_t at) {
    if (!list) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        return {trimmed(text.substr(at, end - at)), std::min(end + 1, text.size())};
    }
    const std::size_t begin = at == 0 ? text.find('[') + 1 : at;
    const std::size_t mark = value_end(text, begin);
    std::size_t end = std::min(mark + 1, text.size());
    // If only spaces follow the record, the record is the last one. Its end is then the end of the
    // text.
    if (text.find_first_not_of(kSpaces, end) == std::string_view::npos) end = text.size();
    return {trimmed(text.substr(begin, mark - begin)), end};
}

std::string_view first_record(std::string_view text, bool list) {
    for (std::size_t at = 0; at < text.size();) {
        const JsonRecord record = record_at(text, list, at);
        if (!record.text.empty()) return record.text;
        at = record.end;
    }
    return {};
}

}  // namespace roll
