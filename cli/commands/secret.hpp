// `rollctl secret`.
#pragma once

#include <string>

#include "cli/context.hpp"

namespace roll::cli {

// A value that jobs which name it find in their environment: of a file, else of stdin.
Result<int> run_secret_set(const Context& context, const std::string& name,
                           const std::string& file);
Result<int> run_secret_list(const Context& context);
Result<int> run_secret_remove(const Context& context, const std::string& name);

}  // namespace roll::cli
