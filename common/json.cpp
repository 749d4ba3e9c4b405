#include "common/json.hpp"

namespace roll {
namespace {

constexpr int kDepthMax = 100;

const Json& null_json() {
    static const Json kNull;
    return kNull;
}

}  // namespace

std::string dump(const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<Json> parse_json(std::string_view text) {
    bool too_deep = false;
    const auto limit_depth = [&](int depth, Json::parse_event_t, Json&) {
        too_deep |= depth > kDepthMax;
        return !too_deep;
    };
    try {
        Json value = Json::parse(text, limit_depth);
        if (too_deep) return fail(ErrorCode::Corrupt, "JSON nests deeper than 100 levels");
        return value;
    } catch (const Json::parse_error& e) {
        return fail(ErrorCode::Corrupt, "not JSON at byte " + std::to_string(e.byte));
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
