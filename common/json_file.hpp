// Files that hold one JSON object, such as config.json of a model.
#pragma once

#include <filesystem>
#include <string_view>

#include "common/json.hpp"

namespace roll {

// Parses the text of the file `path`. If the text is not a JSON object, fails with Corrupt. The
// message names the file and the reason.
Result<Json> parse_json_object(std::string_view text, const std::filesystem::path& path);

// Reads a regular file that holds a JSON object. Fails as read_regular_file() and
// parse_json_object() do.
Result<Json> read_json_object(const std::filesystem::path& path);

// Like read_json_object(), but returns an empty object if the file does not exist.
Result<Json> read_optional_json_object(const std::filesystem::path& path);

}  // namespace roll
