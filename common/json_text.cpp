#include "common/json_text.hpp"

#include <algorithm>

namespace roll {

// Appends the value as a JSON string. In a value of printable ASCII, only quotes and backslashes
// are escaped. nlohmann::json writes any other value.
void JsonText::append(std::string_view value) {
    const std::size_t start = values_.size();
    std::size_t written = 0;  // number of characters of `value` that are written
    values_ += '"';
    for (std::size_t i = 0; i < value.size(); ++i) {
        const char c = value[i];
        if (c < ' ' || c > '~') {
            values_.resize(start);
            values_ += dump(Json(value));
            return;
        }
        if (c != '"' && c != '\\') continue;
        values_.append(value.substr(written, i - written));
        values_ += '\\';
        written = i;
    }
    values_.append(value.substr(written));
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
