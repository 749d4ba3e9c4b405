// Options and code of `rollctl sweep`.
#pragma once

#include <string>

#include "cli/client/look.hpp"
#include "cli/commands/commands.hpp"

namespace roll::cli {

// Submits job files that have the key `sweep`.
Result<int> run_sweep(const Context& context, const SubmitOptions& options);

// Formats the reply of sweep_json() (schema roll.sweep/1) as text.
std::string sweep_text(const Json& sweep, const Look& look);
std::string sweep_csv(const Json& sweep);

}  // namespace roll::cli
