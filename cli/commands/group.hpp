// Adds the subcommands of a command that has subcommands, such as `secret`.
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

}  // namespace roll::cli
