#include "cli/foreign/config.hpp"

#include <algorithm>

#include "common/files.hpp"
#include "common/split.hpp"

namespace roll::cli {
namespace {

// Returns the names that commas separate.
std::vector<std::string> split_names(const std::string& all) {
    std::vector<std::string> found;
    for (std::string& one : split_at(all, ',')) {
        one.erase(0, one.find_first_not_of(' '));
        one.erase(one.find_last_not_of(' ') + 1);
        if (!one.empty()) found.push_back(std::move(one));
    }
    return found;
}

}  // namespace

void Config::refuse(const std::string& key, const std::string& message) const {
    const auto is_same = [&](const spec::Problem& problem) {
        return problem.path == key && problem.message == message;
    };
    if (std::ranges::none_of(foreign.problems, is_same)) foreign.problems.push_back({key, message});
}

std::vector<std::string> Config::names(const std::string& key) const {
    if (!has(key)) return {};
    if (keys[key].is_string()) return split_names(keys[key]);
    std::vector<std::string> found;
    for (const Json& one : keys[key]) {
        if (keys[key].is_array() && one.is_string()) {
            found.push_back(one);
            continue;
        }
        refuse(key, fmt::format("is {}; allowed: a text, or a list of texts", dump(keys[key])));
        return {};
    }
    return found;
}

std::vector<double> Config::numbers(const std::string& key) const {
    if (!has(key)) return {};
    const Json values = keys[key].is_string() ? Json(split_names(keys[key])) : keys[key];
    std::vector<double> found;
    for (const Json& value : values) {
        const Json number =
            value.is_string() ? Json::parse(value.get<std::string>(), nullptr, false) : value;
        if (!number.is_number()) {
            refuse(key, fmt::format("is {}; allowed: a list of numbers", dump(keys[key])));
            return {};
        }
        found.push_back(number);
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
