// The subcommands of `rollctl secret`.
#pragma once

#include <functional>
#include <string>

#include "cli/context.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

struct SecretOptions {
    std::string name;
    std::string file;  // read the value from this file; empty: from stdin
};
// Adds the subcommands to `secret`. The one that the user gives sets `chosen`.
void add_secret_verbs(CLI::App& secret, const Context& context, SecretOptions& options,
                      std::function<Result<int>()>& chosen);
// Stores the secret `name`. Reads its value from `file`, or from stdin if `file` is empty.
Result<int> run_secret_set(const Context& context, const std::string& name,
                           const std::string& file);
Result<int> run_secret_list(const Context& context);
Result<int> run_secret_remove(const Context& context, const std::string& name);

}  // namespace roll::cli
