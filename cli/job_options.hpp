// The options of submit, resume and plan that set keys of a job file. They may stand on the command
// line, on a script's #ROLL lines or in ROLL_SUBMIT.
#pragma once

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
    std::vector<std::string> after;  // dependencies such as "ok:ID"
    std::vector<std::string> secrets;
    bool hold = false;
    std::string name;
    std::string time;
    std::string begin;     // as parse_when() reads it
    std::string deadline;  // as parse_when() reads it
    std::string array;
    std::string cron;
    std::string account;
    std::optional<int> into;
    std::optional<int> priority;
    std::optional<int> slots;
    std::optional<double> gpus;  // 0.5 means half of one GPU
    std::optional<int> nodes;
};

void add_job_options(CLI::App& app, JobOptions& options);    // the options that `plan` takes too
void add_queue_options(CLI::App& app, JobOptions& options);  // all options

// Reads "2026-11-22T08:00:00Z", "+2h" from `now`, or "now".
Result<Time> parse_when(const std::string& text, Time now);

// Sets the document's keys from the options. Fails with InvalidArgument if a --set has not the form
// a.b=value or descends into a value that is no mapping.
Result<void> apply_options(const JobOptions& options, Json& document);

// Reads the "#ROLL ..." lines among the comments at a script's head, up to the first line that is
// neither a comment nor empty. Fails with InvalidArgument, "FILE:LINE: ...".
Result<JobOptions> read_directives(std::string_view script, const std::string& file);

// Returns a note that lists the "#SBATCH ..." lines at the script's head, which Roll ignores; empty
// if there are none.
std::vector<std::string> slurm_directives(std::string_view script, const std::string& file);

// Reads the options in ROLL_SUBMIT. They override a job file and its #ROLL lines; the command line
// overrides them.
Result<JobOptions> options_of_environment();

}  // namespace roll::cli
