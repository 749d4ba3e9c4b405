// The subcommands of `rollctl keys`.
#pragma once

#include <string>

#include "cli/client/context.hpp"
#include "cli/commands/group.hpp"

namespace roll::cli {

// Returns a warning for the owner of this rolld, who gives a key to `holder`. The warning says that
// the jobs of `holder` run as the owner, and what these jobs can read.
std::string trust_text(const std::string& holder);

// Adds the subcommands list, add and revoke. The subcommands read `context` when they run, so
// `context` must outlive `keys`.
void add_keys_commands(CLI::App& keys, const AddCommand& command, const Context& context);

}  // namespace roll::cli
