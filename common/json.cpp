#include "common/json.hpp"

namespace roll {
namespace {

const Json& null_json() {
    static const Json kNull;
    return kNull;
}

// Returns whether the text nests deeper than `most` levels. A check before parsing is fast; a
// callback for each value would make parsing take three times as long.
bool nests_deeper(std::string_view text, int most) {
    int depth = 0;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (quoted) {
            if (c == '\\') ++i;
            if (c == '"') quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > most) return true;
        } else if (c == ']' || c == '}') {
            --depth;
        }
    }
    return false;
}

}  // namespace

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json> parse_json(std::string_view text, int depth_max) {
    if (nests_deeper(text, depth_max))
        return fail(ErrorCode::Corrupt,
                    "JSON nests deeper than " + std::to_string(depth_max) + " levels");
    try {
        return Json::parse(text);
    } catch (const Json::parse_error& e) {
        return fail(ErrorCode::Corrupt, "invalid JSON at byte " + std::to_string(e.byte));
    } catch (const Json::exception&) {  // thrown if a number is too large, such as 1e999
        return fail(ErrorCode::Corrupt, "the JSON contains a number that is out of range");
    }
}

JsonReader::JsonReader(const Json& json, std::string path)
    : object_(json.is_object() ? &json : nullptr),
      path_(std::move(path)) {
    if (object_ == nullptr) note("is not an object");
}

const Json* JsonReader::find(const char* key) {
    read_.insert(key);
    if (object_ == nullptr) return nullptr;
    const auto found = object_->find(key);
    return found == object_->end() ? nullptr : &*found;
}

const Json& JsonReader::raw(const char* key) {
    const Json* field = find(key);
    return field == nullptr ? null_json() : *field;
}

std::string JsonReader::shortened(const Json& field) {
    constexpr std::size_t kMost = 60;
    std::string text = dump(field);
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

void JsonReader::note(const std::string& problem) {
    if (problem_.empty()) problem_ = path_ + ": " + problem;
}

Result<void> JsonReader::finish_lenient() {
    if (!problem_.empty()) return fail(ErrorCode::Corrupt, problem_);
    return {};
}

Result<void> JsonReader::finish() {
    if (object_ != nullptr) {
        for (const auto& [key, value] : object_->items()) {
            if (!read_.contains(key)) note("unknown field " + key);
        }
    }
    return finish_lenient();
}

}  // namespace roll
