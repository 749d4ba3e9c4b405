// The commands of rollctl, one file each. A command prints its data and returns the exit status, or
// an Error that run() prints and turns into one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/context.hpp"
#include "cli/job_file.hpp"
#include "cli/output_format.hpp"

namespace roll::cli {

constexpr int kOwnTrouble = 125;  // of what ends with a job's exit code: an Error

struct UpOptions {
    std::optional<int> slots;
    std::optional<int> gpus;
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
    std::vector<std::string> program;  // what stood after "--"
    JobOptions job;
    std::string key;
    bool wait = false;
    bool follow = false;
    bool dry_run = false;
    bool strict = false;  // refuse what nothing that is connected or ordered can run
};
Result<int> run_submit(const Context& context, const SubmitOptions& options);
Result<int> run_resume(const Context& context, const std::string& selector,
                       const SubmitOptions& options);
// Queues jobs that are over once more; `failed_only`: those that did not end well.
Result<int> run_resubmit(const Context& context, const std::string& selector, bool failed_only,
                         const SubmitOptions& options);
// `words` are those of roll-convert: "convert" or "merge" and what follows.
Result<int> run_submit_conversion(const Context& context, const std::vector<std::string>& words,
                                  const SubmitOptions& options);
// Checks and queues documents; --dry-run prints them.
Result<int> submit_sources(const Context& context, const SubmitOptions& options,
                           std::vector<Source> sources);

struct JobsOptions {
    std::string selector;
    bool all = false;
    std::string state;
    std::string user;
    std::string format;
};
Result<int> run_jobs(const Context& context, const JobsOptions& options);
struct KeysOptions {
    std::string name;
    std::string out;  // directory that becomes the key holder's state directory
    bool worker = false;
};
// Says under which user the jobs of a key's holder run, and what they can therefore read.
std::string trust_text(const std::string& holder);
Result<int> run_keys_list(const Context& context);
Result<int> run_keys_add(const Context& context, const KeysOptions& options);
Result<int> run_keys_revoke(const Context& context, const std::string& name);

Result<int> run_top(const Context& context);
Result<int> run_explain(const Context& context, const std::string& selector);
Result<int> run_show(const Context& context, const std::string& selector);

struct LogsOptions {
    std::string selector;
    bool follow = false;
    std::string ranks = "0";  // "0,2-3", or "all"
    std::optional<int> attempt;
};
Result<int> run_logs(const Context& context, const LogsOptions& options);
struct EventsOptions {
    std::string selector;  // empty: of all jobs
    bool follow = false;
    bool lines = false;  // one JSON value a line, as they are read
};
Result<int> run_events(const Context& context, const EventsOptions& options);

struct MetricsOptions {
    std::string selector;
    bool follow = false;
    bool plot = false;
    std::string key = "loss";
};
Result<int> run_metrics(const Context& context, const MetricsOptions& options);

// The highest exit status of the jobs; `follow` shows how they go.
Result<int> run_wait(const Context& context, const std::vector<std::string>& selectors,
                     bool follow);

// An open job: `submit --into` puts jobs into it until it is closed.
Result<int> run_open(const Context& context, const SubmitOptions& options, const std::string& name);
Result<int> run_close(const Context& context, const std::string& selector);

Result<int> run_cancel(const Context& context, const std::string& selector,
                       const std::string& reason);
Result<int> run_hold(const Context& context, const std::string& selector, bool held);
Result<int> run_update(const Context& context, const std::string& selector,
                       const std::vector<std::string>& settings);
// Asks a training job for a checkpoint, waits for it at most `timeout`, and prints its directory.
Result<int> run_checkpoint(const Context& context, const std::string& selector,
                           const std::string& timeout);
Result<int> run_nodes(const Context& context, const std::string& format);
// What -o help prints.
Result<int> print_format_help(const Fields& fields);
// Without a node: all that are and will be there.
Result<int> run_drain(const Context& context, const std::string& node, bool draining,
                      const std::string& message = {});
Result<int> run_plan(const Context& context, const std::string& file, const JobOptions& options);
// Commands and, of those that have any, their verbs.
using Commands = std::map<std::string, std::vector<std::string>>;
Result<int> run_completion(const std::string& shell, const Commands& commands);
Result<int> run_version(const Context& context);

// "job:12", "job:last" and the like among words become that job's newest checkpoint or, where it
// has none, the model that it made. NotFound: neither is there.
Result<void> replace_jobs(const Context& context, std::vector<std::string>& words);

// Becomes a program that lies beside this one (or is in PATH), with these arguments.
Error become(const std::string& program, const std::vector<std::string>& arguments);

}  // namespace roll::cli
