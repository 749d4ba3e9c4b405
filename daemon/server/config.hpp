// Finds, reads and checks rolld.yaml.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/spec/policy.hpp"

namespace roll::server {

// Returns the policy in `path`. Fails with InvalidArgument and lists all problems of the file.
Result<spec::Policy> read_config(const std::filesystem::path& path);

// Reads `given`, else DIRECTORY/rolld.yaml, else for /var/lib/roll (a system installation)
// /etc/roll/rolld.yaml; returns the defaults if there is none.
Result<spec::Policy> find_config(const std::string& given, const std::filesystem::path& directory);

}  // namespace roll::server
