// Copies variables of the submitter's environment into a command's `env`. `export_env` of the job
// file says which variables are copied.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// Adds variables of `environment` ("NAME=value") to `env` of the document if the document is a
// command. Does the same for each command among the later jobs of its chain. Replaces %u in the
// names of the commands' logs by `user`. Sets `export_env` to "none", so that a resubmitted job
// keeps the environment of its first submission. Returns the names of variables that were left out
// because they look like secrets.
std::vector<std::string> capture_environment(Json& document,
                                             const std::vector<std::string>& environment,
                                             const std::string& user);

// Fails with Refused if rolld has hidden a value of the environment in a reply of `show`, because
// the caller does not own the job. A new job needs these values.
Result<void> refuse_hidden_values(const Json& job);

}  // namespace roll::cli
