// Prints the logs of jobs: `rollctl logs`, and `rollctl submit --follow` of a command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/client/context.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

class Daemon;

struct LogsOptions {
    std::string selector;
    bool follow = false;
    std::string ranks = "0";  // ranks whose logs are shown, such as "0,2-3" or "all"
    std::optional<int> attempt;
    std::optional<std::uint64_t> tail;  // show only this number of lines at the end of the log
    std::string since;    // show only lines since this time; a duration counts back from now
    bool remote = false;  // read through rolld even if this machine has the output directory
    std::string grep;     // show only lines that match this regular expression
};
void add_logs_options(CLI::App& command, LogsOptions& options);
Result<int> run_logs(const Context& context, const LogsOptions& options);

// Follows the logs of all ranks of a command job, as `rollctl logs -f --rank all` does. Prints the
// states of the job on stderr. Returns the job's exit status when the job has ended.
Result<int> follow_output(const Context& context, Daemon& daemon, std::uint64_t id);

}  // namespace roll::cli
