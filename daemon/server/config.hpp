// rolld.yaml: found, read and checked.
#pragma once

#include <filesystem>
#include <string>

#include "common/error.hpp"
#include "common/spec/policy.hpp"

namespace roll::server {

// The policy of `path`. Error InvalidArgument names every problem of the file at once.
Result<spec::Policy> read_config(const std::filesystem::path& path);

// `given`, or DIRECTORY/rolld.yaml where none is given; for /var/lib/roll, a system installation's
// directory, /etc/roll/rolld.yaml after that; the defaults if there is none.
Result<spec::Policy> find_config(const std::string& given, const std::filesystem::path& directory);

}  // namespace roll::server
