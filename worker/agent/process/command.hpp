// What a command's job file says: its program, its environment, the shell commands around the
// program and the names of its logs. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/protocol/worker.hpp"
#include "worker/agent/process/guard_plan.hpp"

namespace roll::agent {

using Environment = std::map<std::string, std::string>;

struct CommandDocument {
    std::vector<std::string> command;
    std::string script;
    Environment environment;
    std::string workdir;
    std::string setup;
    std::string cleanup;
    std::vector<std::string> modules;
    std::string output;  // key `stdout`: name of the file for the output; empty: Roll's own log
    std::string error;   // key `stderr`
    std::string name;
    std::string array;  // key `array` of a job of an array, e.g. "0-15%4"
};

// Reads the fields of a job's document that a command needs. The document was checked at
// submission.
Result<CommandDocument> read_command(const Json& document);

// Returns the program and arguments to start: the command, in a shell if the job has `setup`,
// `cleanup` or `modules`.
std::vector<std::string> shell_words(const CommandDocument& document);

struct CommandPlace {
    std::string directory;  // working directory
    std::string node;
    int local_rank = 0;
};

// Sets the logs of the program that was added to the plan last, if the job names its logs. A name
// that is the same for all ranks is used for rank 0 only.
void name_logs(const protocol::StartOrder& order, const CommandDocument& document,
               const CommandPlace& place, GuardPlan& plan);

}  // namespace roll::agent
