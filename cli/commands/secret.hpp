// The subcommands of `rollctl secret`.
#pragma once

#include "cli/client/context.hpp"
#include "cli/commands/group.hpp"

namespace roll::cli {

// Adds the subcommands set, list and remove. The subcommands read `context` when they run, so
// `context` must outlive `secret`.
void add_secret_commands(CLI::App& secret, const AddCommand& command, const Context& context);

}  // namespace roll::cli
