// Slurm's commands as values: argument vectors, an environment without surprises, the pilot's batch
// script. Pure.
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
    std::vector<std::string> environment{};  // "NAME=value", all of it
    std::string input{};
    std::optional<mode_t> umask{};  // none: ours
    friend bool operator==(const Command&, const Command&) = default;
};

// What all orders of one rolld share.
struct Site {
    std::string directory;                   // rolld's state directory, on a shared volume
    std::string worker;                      // path of roll-worker, on a shared volume
    std::string logs;                        // directory of the pilots' own output
    std::vector<std::string> environment{};  // of rolld
    std::optional<mode_t> umask{};           // of the user, which sbatch hands on to the jobs
};

// The environment of a command: ours without what changes the meaning of Slurm's commands
// (SQUEUE_FORMAT, SBATCH_*, a surrounding job's SLURM_*; SLURM_CONF stays), in the C locale, with
// times as Unix seconds.
std::vector<std::string> scrub(const std::vector<std::string>& environment);

// What names an order to Slurm: comment "roll:alloc=KEY" and job name "roll-KEY". KEY is drawn from
// the ledger's own name, so that no other rolld, and no earlier life of this one, has the same.
std::string comment_of(std::string_view key);
std::string job_name_of(std::string_view key);
// The KEY of such a comment; empty if it is none.
std::string key_of(std::string_view comment);

// The batch script of a pilot: one roll-worker a node, by srun if there are several.
std::string pilot_script(const spec::PilotQueue& queue, const std::string& key, const Site& site);

// `sbatch` with the script as its input.
Command submit_command(const spec::PilotQueue& queue, const std::string& key, const Site& site);

// Every job of this user that Slurm still knows, ended ones too.
Command queue_command(const Site& site);

// Ends the job if it is still ours: Slurm gives ids out again, so the name is said as well.
Command cancel_command(const std::string& id, const std::string& key, const Site& site);

Command partitions_command(const Site& site);

// How these nodes are.
Command nodes_command(const std::vector<std::string>& nodes, const Site& site);

// Whether it is a plain name of a node: no option, no expression that names several.
bool is_node_name(std::string_view name);

// A shell word that stands for exactly this text.
std::string quote(std::string_view text);

}  // namespace roll::slurm
