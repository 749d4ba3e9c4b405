// Helpers for the codecs of this folder: strict readers of nested values, and the version check.
//
// A missing field or a wrong type fails with Corrupt and the path. Unknown fields are ignored,
// because a newer peer may send more fields.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/ids.hpp"
#include "common/json.hpp"
#include "common/protocol/written_checkpoint.hpp"
#include "common/protocol/written_export.hpp"
#include "common/training_request.hpp"

namespace roll::protocol {

// Parses a frame. Fails with Refused if the frame's "v" is not from kOldestVersion to kVersion, and
// with Corrupt if the frame is not a JSON object. `what` names the message in errors.
Result<Json> parse_frame(std::string_view frame, const char* what);

Json to_json(const AttemptKey& key);  // for example {"job": 7, "token": "3-1"}
Result<AttemptKey> read_attempt_key(const Json& json, const std::string& path);
Result<Token> read_token(const Json& json, const std::string& path);

Json to_json(const WrittenCheckpoint& checkpoint);
Result<WrittenCheckpoint> read_written_checkpoint(const Json& json, const std::string& path);

Json to_json(const WrittenExport& written);
Result<WrittenExport> read_written_export(const Json& json, const std::string& path);

Json to_json(const TrainingRequest& request);
// Reads the fields of a training request from an object. Ignores the other fields of this object.
// Returns nullopt if this release does not know the kind of the request.
Result<std::optional<TrainingRequest>> read_training_request(JsonReader& r);

Json to_json(const RequestAnswer& answer);
Result<RequestAnswer> read_request_answer(const Json& json, const std::string& path);

// Returns a JSON array with to_json(item) for each item.
template <class T>
Json to_json_list(const std::vector<T>& items) {
    Json list = Json::array();
    for (const T& item : items) list.push_back(to_json(item));
    return list;
}

// Calls read(element, path) for each element of a JSON array, and appends the results to `items`.
template <class T>
Result<void> read_list(const Json& json, const std::string& path, std::vector<T>& items,
                       Result<T> (*read)(const Json&, const std::string&)) {
    if (!json.is_array()) return fail(ErrorCode::Corrupt, path + ": is not a list");
    items.reserve(json.size());
    for (const Json& item : json) {
        ROLL_TRY(T value, read(item, path));
        items.push_back(std::move(value));
    }
    return {};
}

}  // namespace roll::protocol
