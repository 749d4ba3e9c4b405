// The subcommands of `rollctl secret`.
#pragma once

#include <string>

#include "cli/context.hpp"

namespace roll::cli {

// Stores the secret `name`. Reads its value from `file`, or from stdin if `file` is empty.
Result<int> run_secret_set(const Context& context, const std::string& name,
                           const std::string& file);
Result<int> run_secret_list(const Context& context);
Result<int> run_secret_remove(const Context& context, const std::string& name);

}  // namespace roll::cli
