// Finds, reads and checks rolld.yaml, for rolld and roll-web.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/spec/job/http.hpp"
#include "common/spec/job/policy.hpp"

namespace roll::config {

struct Config {
    spec::Policy policy;
    spec::HttpConfig http;
};

// Returns the content of the file `path`. Fails with InvalidArgument and lists all problems of the
// file.
Result<Config> read_config(const std::filesystem::path& path);

// Reads the file `given` if it is not empty, else DIRECTORY/rolld.yaml. If DIRECTORY is
// /var/lib/roll (a system installation) and has no such file, reads /etc/roll/rolld.yaml. Returns
// the defaults if `given` is empty and neither file exists.
Result<Config> find_config(const std::string& given, const std::filesystem::path& directory);

}  // namespace roll::config
