#include "common/spec/embedded_json.hpp"

#include "common/check.hpp"
#include "common/number.hpp"

namespace roll::spec {

std::optional<EmbeddedJson> EmbeddedJson::find(std::string_view key) const {
    if (!is_object()) return std::nullopt;
    for (const EmbeddedJson one : *this)
        if (one.key() == key) return one;
    return std::nullopt;
}

EmbeddedJson EmbeddedJson::operator[](std::string_view key) const {
    const auto found = find(key);
    ROLL_CHECK(found.has_value());
    return *found;
}

std::string EmbeddedJson::string() const {
    std::string text(text_ + entry_->text, entry_->text_size);
    for (std::size_t at = text.find('\\'); at != text.npos; at = text.find('\\', at + 1))
        text.erase(at, 1);
    return text;
}

double EmbeddedJson::number() const { return json().get<double>(); }

Json EmbeddedJson::json() const {
    Json value;
    switch (entry_->kind) {
        case '{':
            value = Json::object();
            for (const EmbeddedJson one : *this) value[std::string(one.key())] = one.json();
            return value;
        case '[':
            value = Json::array();
            for (const EmbeddedJson one : *this) value.push_back(one.json());
            return value;
        case '"': return string();
        case 't': return true;
        case 'f': return false;
        case 'n': return nullptr;
        default: break;
    }
    const std::string_view digits(text_ + entry_->text, entry_->text_size);
    if (const auto whole = parse_number<std::uint64_t>(digits)) return *whole;
    return Json::parse(digits);
}

}  // namespace roll::spec
