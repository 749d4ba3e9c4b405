// Copies variables of the submitter's environment into a command's `env`, as `export_env` says.
#pragma once

#include <string>
#include <vector>

#include "common/json.hpp"

namespace roll::cli {

// Returns whether a variable's name looks like that of a secret, e.g. HF_TOKEN or AWS_SECRET_KEY.
bool looks_secret(const std::string& name);

// Adds variables of `environment` ("NAME=value") to `env` of the document if it is a command. Does
// the same for the commands among the later jobs of its chain. Replaces %u in the names of the
// commands' logs by `user`. Afterwards `export_env` is "none", because a resubmitted job keeps the
// environment of its first submission. Returns the names of variables that were left out because
// they look like secrets.
std::vector<std::string> capture_environment(Json& document,
                                             const std::vector<std::string>& environment,
                                             const std::string& user);

}  // namespace roll::cli
