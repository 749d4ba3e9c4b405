// The options of submit, resume and plan that set keys of a job file. They may be on the command
// line, on #ROLL lines of a script, or in the variable ROLL_SUBMIT.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.hpp"
#include "common/json.hpp"
#include "common/time.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

// Options of a job. An option that is set overrides the job file.
struct JobOptions {
    std::vector<std::string> sets;   // values of --set, such as "a.b=value"
    std::vector<std::string> after;  // dependencies such as "ok:ID" or "ok:last"
    std::vector<std::string> secrets;
    // "NAME=value", or "NAME" to copy the value from the environment of rollctl
    std::vector<std::string> env;
    std::vector<std::string> files;  // "PATH" or "PATH:NAME"
    std::string export_env;
    std::string workdir;
    std::string container;  // image of a container
    std::string output;     // name of the file for the program's standard output
    std::string error;
    bool hold = false;
    std::string name;
    std::string time;
    std::string begin;     // earliest start, in a form that parse_when() accepts
    std::string deadline;  // time of cancellation, in a form that parse_when() accepts
    std::string array;
    std::string cron;
    std::string account;
    std::string into;  // job group: a number or a selector such as "last"
    std::optional<int> priority;
    std::optional<int> slots;
    std::optional<double> gpus;  // GPUs per node; 0.5 is half of one GPU
    std::optional<int> nodes;
    std::optional<int> tasks;  // number of processes of a command on each node
    std::string memory;        // memory per node, such as 4GiB
    std::optional<int> cpus;
};

// Sets a key of a job file: "a.b=value".
Result<void> set_key(Json& document, const std::string& assignment);

// adds the options that both `submit` and `plan` have
void add_job_options(CLI::App& app, JobOptions& options);
void add_queue_options(CLI::App& app, JobOptions& options);  // adds all options

// Parses a time: "2026-11-22T08:00:00Z", "+2h" (2 hours after `now`) or "now". Error messages name
// `option`.
Result<Time> parse_when(const std::string& text, Time now, const std::string& option);
// Parses a duration, such as "1h 30m". Error messages name `option`.
Result<std::chrono::seconds> duration_of(const std::string& option, const std::string& text);

// Sets keys of the document from the options. Fails with InvalidArgument if a --set does not have
// the form a.b=value, or if `a` is not a mapping in the document.
Result<void> apply_options(const JobOptions& options, Json& document);

// Reads the "#ROLL ..." lines at a script's head. The head ends before the first line that is
// neither a comment nor empty. Fails with InvalidArgument and the message "FILE:LINE: ...".
Result<JobOptions> read_directives(std::string_view script, const std::string& file);

// Reads the options in the variable ROLL_SUBMIT. These options override a job file and its #ROLL
// lines. Options on the command line override the options in ROLL_SUBMIT.
Result<JobOptions> options_of_environment();

}  // namespace roll::cli
