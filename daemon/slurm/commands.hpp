// Builds Slurm's commands as values: arguments, a controlled environment, and the batch script of
// an allocation. The functions are pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "common/spec/job/pilot_queue.hpp"

namespace roll::slurm {

struct Command {
    std::vector<std::string> arguments{};    // the program, then its arguments
    std::vector<std::string> environment{};  // the complete environment, "NAME=value"
    std::string input{};
    std::optional<mode_t> umask{};  // umask of the command; nullopt: rolld's umask
    friend bool operator==(const Command&, const Command&) = default;
};

// Settings that all allocation requests of one rolld share.
struct Site {
    std::string directory;                   // rolld's state directory, on a shared volume
    std::string worker;                      // path of roll-worker, on a shared volume
    std::string logs;                        // directory for the output of the batch scripts
    std::vector<std::string> environment{};  // rolld's environment
    std::optional<mode_t> umask{};           // the user's umask, which sbatch passes on
};

// Returns `environment` without variables that change Slurm's commands (SQUEUE_FORMAT, SBATCH_*,
// the SLURM_* of a surrounding job). Keeps SLURM_CONF. Sets the C locale, and Unix seconds as the
// format of times.
std::vector<std::string> scrub(const std::vector<std::string>& environment);

// Return the comment and the name of the Slurm job of an allocation request: "roll:alloc=KEY" and
// "roll-KEY". KEY contains the ledger's id, so it is unique among all rollds and across restarts,
// and each of the two texts identifies the job.
std::string comment_of(std::string_view key);
std::string job_name_of(std::string_view key);
// Returns the KEY in the comment of a request's job; empty for any other text.
std::string key_of(std::string_view comment);

// Returns the batch script of an allocation. The script starts one roll-worker per node, with srun
// if there are several nodes.
std::string pilot_script(const spec::PilotQueue& queue, const std::string& key, const Site& site);

// Returns the `sbatch` command for an allocation request. Its standard input is the script.
Command submit_command(const spec::PilotQueue& queue, const std::string& key, const Site& site);

// Returns the command that lists all jobs of this user that Slurm knows, including jobs that have
// ended.
Command queue_command(const Site& site);

// Returns the command that cancels the job `id`, but only if the job has the name for the request
// `key`, because Slurm reuses ids.
Command cancel_command(const std::string& id, const std::string& key, const Site& site);

Command partitions_command(const Site& site);

// Returns the command that shows the state of these nodes.
Command nodes_command(const std::vector<std::string>& nodes, const Site& site);

// Returns whether `name` is a plain node name: not an option, and not an expression for several
// nodes.
bool is_node_name(std::string_view name);

}  // namespace roll::slurm
