#include "common/json_file.hpp"

#include <string>
#include <utility>

#include "common/damage.hpp"
#include "common/files.hpp"

namespace roll {

Result<Json> parse_json_object(std::string_view text, const std::filesystem::path& path) {
    auto json = parse_json(text);
    if (json && json->is_object()) return json;
    return fail(ErrorCode::Corrupt,
                path.string() + " is not a JSON object" + (json ? "" : ": " + json.error().message),
                kCopyAgain);
}

Result<Json> read_json_object(const std::filesystem::path& path) {
    ROLL_TRY(const std::string text, read_regular_file(path));
    return parse_json_object(text, path);
}

Result<Json> read_optional_json_object(const std::filesystem::path& path) {
    if (!path_exists(path)) return Json::object();
    return read_json_object(path);
}

}  // namespace roll
