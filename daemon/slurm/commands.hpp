// Slurm's commands as values: arguments, a controlled environment, and the pilot's batch script.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/spec/pilot_queue.hpp"

namespace roll::slurm {

struct Command {
    std::vector<std::string> arguments{};    // the program first
    std::vector<std::string> environment{};  // the complete environment, "NAME=value"
    std::string input{};
    std::optional<mode_t> umask{};  // nullopt keeps rolld's umask
    friend bool operator==(const Command&, const Command&) = default;
};

// Settings shared by all orders of one rolld.
struct Site {
    std::string directory;                   // rolld's state directory, on a shared volume
    std::string worker;                      // path of roll-worker, on a shared volume
    std::string logs;                        // directory of the pilots' output
    std::vector<std::string> environment{};  // rolld's environment
    std::optional<mode_t> umask{};           // the user's umask, which sbatch passes on
};

// Returns rolld's environment without variables that change Slurm's commands (SQUEUE_FORMAT,
// SBATCH_*, the SLURM_* of a surrounding job; SLURM_CONF stays), in the C locale and with times
// as Unix seconds.
std::vector<std::string> scrub(const std::vector<std::string>& environment);

// Identify an order in Slurm: comment "roll:alloc=KEY" and job name "roll-KEY". KEY contains the
// ledger's name, so it is unique among all rollds and across this rolld's restarts.
std::string comment_of(std::string_view key);
std::string job_name_of(std::string_view key);
// Returns the KEY of such a comment; empty for any other text.
std::string key_of(std::string_view comment);

// Returns the batch script of a pilot: one roll-worker per node, started by srun if there are
// several.
std::string pilot_script(const spec::PilotQueue& queue, const std::string& key, const Site& site);

// Returns `sbatch` with the script as its input.
Command submit_command(const spec::PilotQueue& queue, const std::string& key, const Site& site);

// Returns the command that lists every job of this user that Slurm still knows, including ended
// ones.
Command queue_command(const Site& site);

// Returns the command that cancels the job if it is still ours. The job name must match, too,
// because Slurm reuses ids.
Command cancel_command(const std::string& id, const std::string& key, const Site& site);

Command partitions_command(const Site& site);

// Returns the command that shows the state of these nodes.
Command nodes_command(const std::vector<std::string>& nodes, const Site& site);

// Returns true for a plain node name: not an option or an expression for several nodes.
bool is_node_name(std::string_view name);

// Quotes `text` as one shell word.
std::string quote(std::string_view text);

}  // namespace roll::slurm
