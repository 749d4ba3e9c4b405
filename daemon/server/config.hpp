// Finds, reads and checks rolld.yaml.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/spec/policy.hpp"

namespace roll::server {

// Returns the policy in the file `path`. Fails with InvalidArgument and lists all problems of the
// file.
Result<spec::Policy> read_config(const std::filesystem::path& path);

// Reads the file `given` if it is not empty, else DIRECTORY/rolld.yaml. If DIRECTORY is
// /var/lib/roll (a system installation) and has no such file, reads /etc/roll/rolld.yaml. Returns
// the default policy if `given` is empty and neither file exists.
Result<spec::Policy> find_config(const std::string& given, const std::filesystem::path& directory);

}  // namespace roll::server
