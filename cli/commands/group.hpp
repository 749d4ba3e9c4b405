// Adds the subcommands of `keys`, `secret`, `sweep` and `token`.
#pragma once

#include <functional>
#include <string>

#include "common/error.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

// Adds a subcommand of `above`. `action` runs if the user gives this subcommand.
using AddCommand =
    std::function<CLI::App*(CLI::App& above, const std::string& name, const std::string& what,
                            std::function<Result<int>()> action)>;

struct Context;
// Adds all subcommands of `above`. The subcommands read `context` when they run, so `context` must
// outlive `above`.
using AddCommands = void(CLI::App& above, const AddCommand& command, const Context& context);
AddCommands add_keys_commands;    // list, add and revoke
AddCommands add_secret_commands;  // set, list and remove
AddCommands add_sweep_commands;   // show and best
AddCommands add_token_commands;   // create, list and revoke

}  // namespace roll::cli
