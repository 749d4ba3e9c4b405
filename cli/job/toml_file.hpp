// Reads job files in TOML.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

struct TomlFile {
    Json document = Json::object();
    // maps the path of a key to its line; the paths are as in yaml::key_lines()
    std::map<std::string, int> lines{};
};

// Reads TOML as JSON. Dates and times become strings. Fails with InvalidArgument and the message
// "FILE:LINE: not TOML: ...".
Result<TomlFile> read_toml(const std::string& text, const std::string& file);

}  // namespace roll::cli
