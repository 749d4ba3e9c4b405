// Job files in TOML, as JSON.
#pragma once

#include <map>
#include <string>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

struct TomlFile {
    Json document = Json::object();
    std::map<std::string, int> lines{};  // of its keys, by their paths: as yaml::key_lines
};

// Dates and times become text. Error InvalidArgument, "FILE:LINE: not TOML: ...".
Result<TomlFile> read_toml(const std::string& text, const std::string& file);

}  // namespace roll::cli
