// The commands of rollctl, one per file. A command prints its data and returns the exit status. A
// command that fails returns an Error instead. run() prints the error and sets the exit status.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/client/context.hpp"
#include "cli/submit/job_file.hpp"
#include "cli/text/output_format.hpp"

namespace CLI {
class App;
}

namespace roll::cli {

struct UpOptions {
    std::optional<int> slots;
    std::optional<int> gpus;
    std::string memory;
    std::optional<int> cpus;
    std::string endpoint;
    double slurm_poll = 0;
    std::string shared;
    bool no_worker = false;
};
Result<int> run_up(const Context& context, const UpOptions& options);
Result<int> run_down(const Context& context, bool now);
Result<int> run_doctor(const Context& context, bool slurm);

struct SubmitOptions {
    std::vector<std::string> files;
    std::vector<std::string> program;  // the command line that follows "--"
    JobOptions job;
    std::string key;
    bool wait = false;
    bool follow = false;
    bool dry_run = false;
    bool strict = false;     // refuse jobs that no connected node or requested allocation can run
    bool as_sbatch = false;  // print "Submitted batch job 12", as sbatch does
    bool quiet = false;      // print nothing about jobs that were queued
    bool no_git = false;     // do not record the git work tree
};
Result<int> run_submit(const Context& context, const SubmitOptions& options);
std::string draw_key();  // returns a random idempotency key
Result<int> run_resume(const Context& context, const std::string& selector,
                       const SubmitOptions& options);
// Submits ended jobs again. With `failed_only`, submits only jobs that failed or were cancelled.
Result<int> run_resubmit(const Context& context, const std::string& selector, bool failed_only,
                         const SubmitOptions& options);
// Submits a convert or merge job. `words` are roll-convert's arguments. The first argument is
// "convert" or "merge".
Result<int> run_submit_conversion(const Context& context, const std::vector<std::string>& words,
                                  const SubmitOptions& options);
// Checks the job documents and submits them. With --dry-run, prints them instead.
Result<int> submit_sources(const Context& context, const SubmitOptions& options,
                           std::vector<Source> sources);

struct JobsOptions {
    std::string selector;
    bool all = false;
    std::string state, user, format;
    std::string since;                  // leave out jobs that ended before this time
    std::optional<std::size_t> newest;  // list only the newest jobs: at most this number
    bool expand = false;                // print one row for each task of an array
};
void add_jobs_options(CLI::App& command, JobsOptions& options);  // adds all options except -o
Result<int> run_jobs(const Context& context, const JobsOptions& options);
Result<int> run_top(const Context& context);
Result<int> run_explain(const Context& context, const std::string& selector);
// Prints a job. With `diff`, prints only the diff of the job's work tree.
Result<int> run_show(const Context& context, const std::string& selector, bool diff);

struct EventsOptions {
    std::string selector;  // jobs whose events are shown; empty: all jobs
    bool follow = false;
    bool lines = false;  // print one JSON value per line
};
Result<int> run_events(const Context& context, const EventsOptions& options);

struct MetricsOptions {
    std::string selector;
    bool follow = false;
    bool plot = false, phases = false;
    bool remote = false;  // read through rolld even if this machine has the output directory
    std::optional<std::string> key;  // show only this metric; nullopt: the usual metrics
};
void add_metrics_options(CLI::App& command, MetricsOptions& options);
Result<int> run_metrics(const Context& context, const MetricsOptions& options);

// Waits for the jobs and returns the highest exit status. With `follow`, prints their progress.
Result<int> run_wait(const Context& context, const std::vector<std::string>& selectors,
                     bool follow);

// Opens a job group. `submit --into` adds jobs to the group until run_close() closes the group.
Result<int> run_open(const Context& context, const SubmitOptions& options, const std::string& name);
Result<int> run_close(const Context& context, const std::string& selector);

Result<int> run_cancel(const Context& context, const std::string& selector,
                       const std::string& reason);
Result<int> run_requeue(const Context& context, const std::string& selector);
Result<int> run_hold(const Context& context, const std::string& selector, bool held);
Result<int> run_update(const Context& context, const std::string& selector,
                       const std::vector<std::string>& settings);
Result<int> run_nodes(const Context& context, const std::string& format);
// Prints the fields and named formats that the option -o accepts (`-o help`).
Result<int> print_format_help(const Fields& fields);
// Drains a node. If `draining` is false, ends the draining instead. If `all` is true and `node` is
// empty, changes all nodes, including nodes that join later. Fails if `all` is false and `node` is
// empty.
Result<int> run_drain(const Context& context, const std::string& node, bool all, bool draining,
                      const std::string& message = {});
struct PlanFiles {
    // Paths of the files to write: an SVG drawing and a Chrome trace of the pipeline schedule;
    // empty: none.
    std::string svg, trace;
};
void add_plan_options(CLI::App& command, PlanFiles& files);
Result<int> run_plan(const Context& context, const std::string& file, const PlanFiles& files,
                     const JobOptions& options);
// Checks that the job's layout gives the same results as one rank. For this check, reduces the
// sizes of the job.
Result<int> run_prove(const Context& context, const std::string& file, const JobOptions& options);
// Maps the name of a command to its subcommands; a command without subcommands has an empty list.
using Commands = std::map<std::string, std::vector<std::string>>;
Result<int> run_completion(const std::string& shell, const Commands& commands);
Result<int> run_version(const Context& context);

// Replaces each word "job:SELECTOR", such as "job:12" or "job:last", by the directory of the job's
// newest checkpoint. If the job has no checkpoint, uses the directory of the model that the job
// wrote. Fails with NotFound if the job has neither. If words[1] is the name of a model on the
// HuggingFace Hub, replaces words[1] by the model's directory in HuggingFace's cache.
Result<void> replace_models(const Context& context, std::vector<std::string>& words);

// Replaces the selectors in a job document by job ids. A dependency in `after`, such as "ok:last",
// gets the id of the selected job, or the id of the whole array if this job is a task of an array.
// `into` gets the id of the selected job group, or of the group to which the selected job belongs.
// Fails if a selector selects no job or several jobs.
Result<void> replace_selectors(const Context& context, Json& document);

// Replaces this process by `program`, which is next to rollctl or in PATH. Returns only if the
// program cannot be started. in_memory() makes a file for `program`, and returns its path.
Error become(const std::string& program, const std::vector<std::string>& arguments);
Result<std::string> in_memory(const std::string& content);

}  // namespace roll::cli
