#include "cli/foreign_config.hpp"

#include <algorithm>

#include "common/files.hpp"

namespace roll::cli {

std::vector<std::string> Config::names(const std::string& key) const {
    std::vector<std::string> found;
    if (!has(key)) return found;
    if (keys[key].is_array()) {
        for (const Json& one : keys[key])
            if (one.is_string()) found.push_back(one);
        return found;
    }
    std::string all = text(key).value_or("");
    for (std::size_t from = 0; from < all.size();) {
        const std::size_t end = std::min(all.find(',', from), all.size());
        std::string one = all.substr(from, end - from);
        one.erase(0, one.find_first_not_of(' '));
        one.erase(one.find_last_not_of(' ') + 1);
        if (!one.empty()) found.push_back(std::move(one));
        from = end + 1;
    }
    return found;
}

std::optional<Json> Config::object_in(const std::string& path, const std::string& key) const {
    const auto text = read_file(path);
    if (!text) {
        refuse(key, text.error().message);
        return std::nullopt;
    }
    auto json = parse_json(*text);
    if (json && json->is_object()) return *json;
    refuse(key,
           fmt::format("{} is not a JSON object{}", path, json ? "" : ": " + json.error().message));
    return std::nullopt;
}

void set_path(Json& document, const std::string& path, Json value) {
    Json* at = &document;
    for (std::size_t from = 0; from <= path.size();) {
        const std::size_t end = std::min(path.find('.', from), path.size());
        at = &(*at)[path.substr(from, end - from)];
        from = end + 1;
    }
    *at = std::move(value);
}

}  // namespace roll::cli
