// Copies variables of the submitter's environment into a command's `env`. `export_env` of the job
// file says which variables are copied.
#pragma once

#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"

namespace roll::cli {

// Changes the document, and the later jobs of its chain. In each job of kind command, this function
// - adds variables of `environment` ("NAME=value") to `env`
// - sets `export_env` to "none", so that a resubmitted job keeps the environment of its first
//   submission
// - replaces %u in the names of the log files by `user`
// Returns the names of variables that were left out because they look like secrets.
std::vector<std::string> capture_environment(Json& document,
                                             const std::vector<std::string>& environment,
                                             const std::string& user);

// Fails with Refused if `job`, a reply to `show`, has hidden values of the environment. rolld hides
// these values from callers who do not own the job. A new job needs these values.
Result<void> refuse_hidden_values(const Json& job);

}  // namespace roll::cli
