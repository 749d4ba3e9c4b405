// `rollctl shell`: a terminal inside a running job, or in an interactive job of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/client/context.hpp"
#include "cli/job/options.hpp"
#include "common/error.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

struct ShellOptions {
    std::string selector;  // the job; empty: an interactive job is submitted
    std::optional<int> rank;
    std::string node;
    JobOptions job;  // options of the interactive job
};
void add_shell_options(CLI::App& command, ShellOptions& options);

// Runs `program`, or a shell, and returns its exit status.
Result<int> run_shell(const Context& context, const ShellOptions& options,
                      const std::vector<std::string>& program);

}  // namespace roll::cli
