// The content of a command's job file: its program, its environment, the shell commands around the
// program and the names of its logs. The functions are pure.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/process/container.hpp"
#include "worker/agent/process/guard_plan.hpp"

namespace roll::agent {

using Environment = std::map<std::string, std::string>;

// The key `sbatch` of a job file: the command is a batch script of Slurm (batch.hpp).
struct BatchScript {
    std::string name;  // name of the job in Slurm; empty: the name of Roll's job
    int tasks = 0;     // number of tasks; 0: not given
    int tasks_per_node = 0;
    int cpus_per_task = 0;
    int cpus_per_gpu = 0;
    // memory in MiB as given to sbatch; 0: not given
    int mem_per_node = 0, mem_per_cpu = 0, mem_per_gpu = 0;
    std::string submit_directory;
    std::string submit_host;
    std::string input;  // file for the standard input; empty: /dev/null
    bool append = false;
    std::string export_names;  // value of --export; empty: not given
    std::string dependency;
    int signal = 0;         // number of the signal; 0: none
    int signal_before = 0;  // time from the signal to the time limit, in seconds
    bool signal_to_script = false;
};

struct CommandDocument {
    std::vector<std::string> command;
    std::string script;
    Environment environment;
    std::string workdir;
    std::string setup;
    std::string cleanup;
    std::vector<std::string> modules;
    std::string output;  // key `stdout`: name of the file for the output; empty: Roll's own log
    std::string error;   // key `stderr`: name of the file for stderr
    std::string name;
    std::string array;  // key `array` of a job of an array, e.g. "0-15%4"
    std::optional<BatchScript> batch{};
    std::vector<std::string> secrets{};  // names of the job's secrets
    std::optional<Container> container{};
};

// Returns the directory with the attempt's files (key `files`) below LaunchSite::files.
std::filesystem::path files_directory(const std::filesystem::path& files, const AttemptKey& key);

// Returns the name of the job as the submitter wrote it.
const std::string& name_of(const CommandDocument& document);

// The place of a job in its array.
struct ArrayPlace {
    std::uint64_t first = 0;  // number of the array's first job
    int index = 0;
    std::vector<int> indices;  // all indices of the array, ascending
};
// Returns the job's place in its array; nullopt for a job that is not in an array.
std::optional<ArrayPlace> array_place(const protocol::StartOrder& order,
                                      const CommandDocument& document);

// Reads the fields of a job's document that a command needs. The document was checked at
// submission. `files` is the directory of the attempt's files. It replaces "{files}" in the
// command's words and at the beginning of `workdir`.
Result<CommandDocument> read_command(const Json& document, const std::string& files);

// Returns the program and arguments to start: the command, in a shell if the job has `setup`,
// `cleanup` or `modules`. If `forwards_sigterm` is true, only the shell gets SIGTERM, and the shell
// passes it on to the program. Otherwise the whole process group gets SIGTERM.
std::vector<std::string> shell_words(const CommandDocument& document, bool forwards_sigterm);

struct CommandPlace {
    std::string directory;  // working directory
    std::string node;
    int local_rank = 0;
};

// If the job names its logs, sets the logs of the program that was last added to the plan. A name
// that is the same for all ranks is used for rank 0 only.
void name_logs(const protocol::StartOrder& order, const CommandDocument& document,
               const CommandPlace& place, GuardPlan& plan);

}  // namespace roll::agent
