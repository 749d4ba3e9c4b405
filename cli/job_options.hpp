// The options of submit, resume and plan that stand for keys of a job file, on a command line and
// on a script's #ROLL lines alike.
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

// What is set wins over the file.
struct JobOptions {
    std::vector<std::string> sets;   // "a.b=value"
    std::vector<std::string> after;  // "ok:ID"
    std::vector<std::string> secrets;
    bool hold = false;
    std::string name;
    std::string time;
    std::string begin;     // an instant, or "+2h" from now
    std::string deadline;  // the same
    std::string array;
    std::string cron;
    std::string account;
    std::optional<int> into;
    std::optional<int> priority;
    std::optional<int> slots;
    std::optional<double> gpus;  // 0.5: half of one
    std::optional<int> nodes;
};

void add_job_options(CLI::App& app, JobOptions& options);    // what plan takes too
void add_queue_options(CLI::App& app, JobOptions& options);  // and what only queueing needs

// "2026-11-22T08:00:00Z", "+2h" from `now`, or "now".
Result<Time> parse_when(const std::string& text, Time now);

// Error InvalidArgument: a --set that is no a.b=value, or goes through what is no mapping.
Result<void> apply_options(const JobOptions& options, Json& document);

// The options on the "#ROLL ..." lines in the comments at a script's head: they end at the first
// line that is none. Error InvalidArgument, "FILE:LINE: ...".
Result<JobOptions> read_directives(std::string_view script, const std::string& file);

// A note with the "#SBATCH ..." lines in the same comments, which are not read; none without any.
std::vector<std::string> slurm_directives(std::string_view script, const std::string& file);

// The options in ROLL_SUBMIT, which win over a file and its #ROLL lines; the command line's win
// over them.
Result<JobOptions> options_of_environment();

}  // namespace roll::cli
