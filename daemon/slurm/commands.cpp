#include "daemon/slurm/commands.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include "common/split.hpp"
#include "daemon/slurm/parse.hpp"

namespace roll::slurm {
namespace {

constexpr std::string_view kComment = "roll:alloc=";

std::string value_of(const std::vector<std::string>& environment, std::string_view name) {
    for (const std::string& variable : environment) {
        if (variable.starts_with(name) && variable.substr(name.size()).starts_with("="))
            return variable.substr(name.size() + 1);
    }
    return {};
}

Command command(const Site& site, std::vector<std::string> arguments) {
    return {std::move(arguments), scrub(site.environment), {}};
}

std::string format(const char* fields) { return std::string("--format=").append(fields); }

// Formats a duration as "D-HH:MM:00". Rounds up to whole minutes, as Slurm does.
std::string time_text(std::chrono::seconds time) {
    const auto minutes = std::chrono::ceil<std::chrono::minutes>(time).count();
    const auto two = [](auto n) { return (n < 10 ? "0" : "") + std::to_string(n); };
    return std::to_string(minutes / 1440) + "-" + two(minutes / 60 % 24) + ":" + two(minutes % 60) +
           ":00";
}

// Variables of rolld's environment that workers and their jobs get.
constexpr std::array<const char*, 8> kKept = {"HOME", "USER",   "LOGNAME",         "SHELL",
                                              "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH"};

// Returns shell lines that set the variables of rolld's environment. Without these lines, the job
// would have the environment of sbatch, with another locale.
std::string exports(const Site& site) {
    std::string text = "unset LC_ALL\n";
    for (const char* name : kKept) {
        const std::string value = value_of(site.environment, name);
        if (!value.empty())
            text += "export " + std::string(name) + "=" + shell_quoted(value) + "\n";
    }
    return text;
}

// Returns the environment that a worker inherits through sbatch (--export=ALL), without the secrets
// in rolld's environment.
//
// With any other value of --export, including NIL, Slurm 22.05 first logs the user in on the node.
// This login takes a second.
std::vector<std::string> inherited(const Site& site) {
    std::vector<std::string> kept;
    for (const char* name : {"HOME", "USER", "LOGNAME", "SHELL", "PATH", "SLURM_CONF"}) {
        const std::string value = value_of(site.environment, name);
        if (!value.empty()) kept.push_back(std::string(name) + "=" + value);
    }
    kept.emplace_back("LC_ALL=C");
    return kept;
}

}  // namespace

std::vector<std::string> scrub(const std::vector<std::string>& environment) {
    static constexpr std::array<std::string_view, 12> kPrefixes = {
        "SLURM_", "SLURMD_", "SBATCH_",  "SQUEUE_",   "SINFO_", "SACCT_",
        "SRUN_",  "SALLOC_", "SCANCEL_", "SCONTROL_", "LC_",    "LANG"};
    std::vector<std::string> kept;
    for (const std::string& variable : environment) {
        const bool drop = std::ranges::any_of(
            kPrefixes, [&](std::string_view prefix) { return variable.starts_with(prefix); });
        if (!drop || variable.starts_with("SLURM_CONF=")) kept.push_back(variable);
    }
    kept.emplace_back("LC_ALL=C");
    kept.emplace_back("SLURM_TIME_FORMAT=%s");
    return kept;
}

std::string comment_of(std::string_view key) { return std::string(kComment) + std::string(key); }
std::string job_name_of(std::string_view key) { return "roll-" + std::string(key); }
std::string key_of(std::string_view comment) {
    if (!comment.starts_with(kComment)) return {};
    return std::string(comment.substr(kComment.size()));
}

namespace {

// Returns a size in MiB as text. Rounds up, as Slurm does.
std::string mebibytes(std::int64_t bytes) { return std::to_string((bytes + (1 << 20) - 1) >> 20); }

// Returns the command, as shell words, that starts a worker.
std::string worker_words(const spec::PilotQueue& queue, const std::string& key, const Site& site) {
    return shell_quoted(site.worker) + " --dir " + shell_quoted(site.directory) +
           " \\\n    --pilot " + shell_quoted(key) + " --slots " + std::to_string(queue.slots) +
           " --gpus " + std::to_string(queue.gpus) +
           (queue.memory > 0 ? " --memory " + std::to_string(queue.memory) : "") +
           " --ends-at \"$ends\" --handover " + std::to_string(queue.margin().count());
}

// Returns the srun command that starts the workers of all nodes except the first. --no-kill keeps
// the other workers running if a node fails. The command gives --overlap and the sizes explicitly,
// because srun may fail with a site's default values.
std::string other_nodes(const spec::PilotQueue& queue) {
    const std::string others = std::to_string(queue.nodes - 1);
    std::string text = "srun --export=ALL --overlap --no-kill --kill-on-bad-exit=0 --wait=0";
    text += " --mpi=none \\\n    --relative=1 --nodes=" + others + " --ntasks=" + others +
            " --ntasks-per-node=1 --cpus-per-task=" + std::to_string(queue.slots);
    if (queue.gpus > 0) text += " --gres=gpu:" + std::to_string(queue.gpus);
    if (queue.memory > 0) text += " --mem=" + mebibytes(queue.memory) + "M";
    return text + " \\\n    \"${worker[@]}\" </dev/null &\n";
}

// Lines of the batch script for several nodes. The script passes Slurm's signals to the first
// worker. rolld tells the other workers to end. The script waits for all workers, because Slurm
// would kill them at the end of the script.
constexpr const char* kUntilAllHaveEnded = R"(trap 'kill -TERM $first' TERM INT HUP USR1 USR2
for worker in $others $first; do
    until wait $worker; status=$?; ! kill -0 $worker 2>/dev/null; do :; done
done
exit $status
)";

}  // namespace

// Returns the batch script of an allocation.
//
// The worker of the first node is started without srun, because srun would take half a second. On
// one node, the worker replaces the script (exec), so that it receives Slurm's signals. The lines
// of --setup run in a login shell, which provides `module`. Slurm 22.05 does not set
// SLURM_JOB_END_TIME, so the script computes the end of the allocation. If Slurm moves the end to
// an earlier time, rolld learns this from squeue.
std::string pilot_script(const spec::PilotQueue& queue, const std::string& key, const Site& site) {
    std::string text = queue.setup.empty() ? "#!/bin/bash\n" : "#!/bin/bash -l\n";
    text += "# Pilot " + key + " of Roll's allocation queue " + queue.name +
            ": one roll-worker per node.\n";
    text += exports(site);
    text += "printf -v now '%(%s)T' -1\n";
    text += "ends=${SLURM_JOB_END_TIME:-$((now + " + std::to_string(queue.time.count()) + "))}\n";
    for (const std::string& line : queue.setup) text += line + "\n";
    const std::string worker = worker_words(queue, key, site);
    if (queue.nodes == 1) return text + "exec " + worker + "\n";
    text += "worker=(" + worker + ")\n";
    text += "\"${worker[@]}\" &\nfirst=$!\n";
    text += other_nodes(queue) + "others=$!\n";
    return text + kUntilAllHaveEnded;
}

// Returns the sbatch command.
//
// --no-requeue: a job that Slurm restarts would belong to a request that has ended. --signal: Slurm
// sends SIGTERM queue.margin() before the end of the allocation, or up to a minute earlier. If the
// end is moved, the signal moves with it. "B:" sends the signal to the batch script; without "B:",
// only processes started by srun get it.
Command submit_command(const spec::PilotQueue& queue, const std::string& key, const Site& site) {
    std::vector<std::string> arguments = {
        "sbatch",
        "--parsable",
        "--job-name=" + job_name_of(key),
        "--comment=" + comment_of(key),
        "--no-requeue",
        "--no-kill",
        "--export=ALL",
        "--open-mode=append",
        "--output=" + site.logs + "/" + key + ".out",
        "--input=/dev/null",
        "--nodes=" + std::to_string(queue.nodes),
        "--ntasks-per-node=1",
        "--cpus-per-task=" + std::to_string(queue.slots),
        "--time=" + time_text(queue.time),
        (queue.nodes > 1 ? "--signal=TERM@" : "--signal=B:TERM@") +
            std::to_string(queue.margin().count())};
    if (queue.gpus > 0) arguments.push_back("--gres=gpu:" + std::to_string(queue.gpus));
    if (queue.memory > 0) arguments.push_back("--mem=" + mebibytes(queue.memory) + "M");
    if (!queue.partition.empty()) arguments.push_back("--partition=" + queue.partition);
    if (!queue.account.empty()) arguments.push_back("--account=" + queue.account);
    if (!queue.qos.empty()) arguments.push_back("--qos=" + queue.qos);
    if (!queue.constraint.empty()) arguments.push_back("--constraint=" + queue.constraint);
    arguments.insert(arguments.end(), queue.sbatch_args.begin(), queue.sbatch_args.end());
    return {std::move(arguments), inherited(site), pilot_script(queue, key, site), site.umask};
}

Command queue_command(const Site& site) {
    return command(site, {"squeue", "--me", "--noheader", "--states=all", format(kQueueFormat)});
}

Command cancel_command(const std::string& id, const std::string& key, const Site& site) {
    return command(site, {"scancel", "--name=" + job_name_of(key), id});
}

Command partitions_command(const Site& site) {
    return command(site, {"sinfo", "--noheader", format(kPartitionFormat)});
}

Command nodes_command(const std::vector<std::string>& nodes, const Site& site) {
    std::string names;
    for (const std::string& node : nodes) names += (names.empty() ? "" : ",") + node;
    return command(site, {"scontrol", "--oneliner", "show", "node", names});
}

bool is_node_name(std::string_view name) {
    const auto fits = [](unsigned char c) {
        return std::isalnum(c) || c == '.' || c == '_' || c == '-';
    };
    return !name.empty() && name.front() != '-' && std::ranges::all_of(name, fits);
}

}  // namespace roll::slurm
