#include "common/json_text.hpp"

#include <algorithm>

namespace roll {

// Appends the value as a JSON string. Writes printable ASCII itself, with backslashes as the only
// escapes. Leaves all other text to the library.
void JsonText::append(std::string_view value) {
    if (!std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~'; })) {
        values_ += dump(Json(value));
        return;
    }
    values_ += '"';
    for (const char c : value) {
        if (c == '"' || c == '\\') values_ += '\\';
        values_ += c;
    }
    values_ += '"';
}

std::string JsonText::text() const {
    std::vector<Field> fields = fields_;
    std::ranges::sort(fields, {}, &Field::key);
    std::string text = "{";
    text.reserve(values_.size() + 24 * fields.size());
    for (const Field& field : fields) {
        if (text.size() > 1) text += ',';
        text += '"';
        text += field.key;
        text += "\":";
        text.append(values_, field.begin, field.end - field.begin);
    }
    return text + "}";
}

}  // namespace roll
