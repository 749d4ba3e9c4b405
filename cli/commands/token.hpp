// `rollctl token`: manages tokens for programs that use roll-web's HTTP interface.
#pragma once

#include "cli/client/context.hpp"
#include "cli/commands/group.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

// Adds the subcommands create, list and revoke. The subcommands read `context` when they run, so
// `context` must outlive `token`.
void add_token_commands(CLI::App& token, const AddCommand& command, const Context& context);

}  // namespace roll::cli
