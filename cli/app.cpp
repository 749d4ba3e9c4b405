#include "cli/app.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/arguments.hpp"
#include "cli/commands/alloc.hpp"
#include "cli/commands/data.hpp"
#include "cli/commands/group.hpp"
#include "cli/commands/keys.hpp"
#include "cli/commands/logs.hpp"
#include "cli/commands/sections.hpp"
#include "cli/commands/selector.hpp"
#include "cli/commands/shell.hpp"
#include "cli/commands/slurm.hpp"
#include "cli/commands/sweep.hpp"
#include "cli/commands/tell.hpp"
#include "cli/commands/usage.hpp"
#include "cli/commands/web.hpp"
#include "cli/job/options.hpp"
#include "cli/parse_problem.hpp"
#include "cli/show/follow.hpp"
#include "common/help_format.hpp"

namespace roll::cli {
namespace {

// Parses one command line with CLI11 and runs the chosen command.
class Parser {
  public:
    explicit Parser(std::vector<std::string> program) {
        submit_.program = std::move(program);
        app_.formatter(std::make_shared<HelpFormat>());
        app_.require_subcommand(1);
        app_.set_version_flag("--version", "rollctl " ROLL_VERSION, "Print the version");
        app_.add_flag("--json", context_.json, "Print one JSON value; errors are {\"error\": ...}");
        app_.add_flag("--parsable", context_.parsable, "Print only ids (or names), one per line");
        app_.add_option("--dir", context_.directory,
                        "State directory [$ROLL_DIR, else $XDG_STATE_HOME/roll]");
        app_.add_option("--color", color_, "Colour the output: auto, always or never [auto]")
            ->check(CLI::IsMember({"auto", "always", "never"}));
    }

    int run(int argc, char** argv) {
        look_at_stdout(context_, Color::Auto);
        add_commands();
        const char* const mode = std::getenv("ROLL_OUTPUT_MODE");
        const std::string usual = mode == nullptr ? "" : mode;
        // A parse error is printed as JSON only if `json` is set, so set `json` before parsing.
        // set_mode() sets `json` again after parsing.
        context_.json = usual == "json" || has_flag(argc, argv, "--json");
        try {
            app_.parse(argc, argv);
        } catch (const CLI::Success& e) {
            return app_.exit(e);  // --help and --version end the program here
        } catch (const CLI::ParseError& e) {
            return failed(usage_error(e, argc, argv), argc, argv);
        }
        if (auto set = set_mode(usual); !set) return failed(set.error(), argc, argv);
        look_at_stdout(context_, color_ == "always"  ? Color::Always
                                 : color_ == "never" ? Color::Never
                                                     : Color::Auto);
        auto status = chosen_();
        return status ? *status : failed(status.error(), argc, argv);
    }

  private:
    using Action = std::function<Result<int>()>;

    // Prints the error and returns the exit status. For a command that exits with a job's status,
    // the exit status is kOwnTrouble.
    int failed(const Error& error, int argc, char** argv) const {
        print_error(context_, error);
        return returns_job_status(argc, argv) ? kOwnTrouble : exit_code(error.code);
    }

    // Applies the value of ROLL_OUTPUT_MODE. The options --json and --parsable override this value.
    Result<void> set_mode(const std::string& mode) {
        if (mode == "json" || mode == "parsable" || mode == "text" || mode.empty()) {
            const bool flags = app_.count("--json") + app_.count("--parsable") > 0;
            context_.json = flags ? app_.count("--json") > 0 : mode == "json";
            context_.parsable |= !flags && mode == "parsable";
            return {};
        }
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("ROLL_OUTPUT_MODE is {}; allowed: text, json or parsable", mode));
    }

    void add_commands() {
        add_local();
        add_group("keys", "Manage the keys that may connect to rolld", add_keys_commands);
        add_group("secret", "Manage secrets that jobs receive as environment variables",
                  add_secret_commands);
        add_group("token", "Manage tokens for programs that use the HTTP interface",
                  add_token_commands);
        add_submit();
        add_sweep();
        add_resubmit();
        add_resume();
        add_queries();
        add_open();
        add_steering();
        add_alloc();
        add_checkpoint_work();
        for (CLI::App* sub : app_.get_subcommands(nullptr)) sub->group(section_of(sub->get_name()));
    }

    CLI::App* command(const std::string& name, const std::string& what, Action action) {
        CLI::App* sub = app_.add_subcommand(name, what);
        sub->fallthrough();  // accept --json also after the command
        sub->callback([this, action = std::move(action)] { chosen_ = action; });
        return sub;
    }

    // Adds the subcommand `name`, such as `add`, to the command `above`, such as `keys`.
    CLI::App* command_of(CLI::App* above, const std::string& name, const std::string& what,
                         Action action) {
        above->require_subcommand(1);
        above->fallthrough();
        CLI::App* sub = above->add_subcommand(name, what);
        sub->fallthrough();
        sub->callback([this, action = std::move(action)] { chosen_ = action; });
        return sub;
    }

    Commands commands() const {
        Commands all;
        for (const CLI::App* sub : app_.get_subcommands(nullptr)) {
            auto& verbs = all[sub->get_name()];
            for (const CLI::App* verb : sub->get_subcommands(nullptr))
                verbs.push_back(verb->get_name());
        }
        return all;
    }

    Error usage_error(const CLI::ParseError& e, int argc, char** argv) const {
        Error error{ErrorCode::InvalidArgument, problem_text(e, app_), "rollctl --help"};
        const std::string word(first_word(argc, argv));
        std::vector<std::string> known;
        for (const auto& [name, verbs] : commands()) known.push_back(name);
        if (std::ranges::find(known, word) != known.end()) {
            error.hint = "rollctl " + word + " --help";
        } else if (!word.empty() && app_.get_subcommands().empty()) {
            error = unknown_command(word, known);
        }
        return error;
    }

    void add_submit_options(CLI::App* sub) {
        add_queue_options(*sub, submit_.job);
        sub->add_option("--key", submit_.key,
                        "Idempotency key: a second request with the key queues no second job");
        sub->add_flag("--wait", submit_.wait, "Wait for the job and exit with its exit code");
        sub->add_flag("--follow", submit_.follow,
                      "Like --wait, and show the job's progress; for a command, its output");
        sub->add_flag("--dry-run", submit_.dry_run, "Check the job and print it; queue nothing");
        sub->add_flag("--no-git", submit_.no_git, "Do not record the Git commit and diff");
        sub->add_flag("--strict", submit_.strict,
                      "Reject a job that no connected node or requested allocation can ever run");
        // Reject empty values, which come from unset variables in scripts. Otherwise a job would
        // run without its container, or a retry without its idempotency key.
        for (CLI::Option* option : sub->get_options())
            if (option->get_items_expected_max() > 0)
                option->check([](const std::string& value) {
                    return value.empty() ? kEmptyValue : std::string();
                });
    }

    void add_local() {
        CLI::App* up = command("up", "Start a private rolld and worker on this machine",
                               [this] { return run_up(context_, up_); });
        up->add_option("--slots", up_.slots, "CPU slots of the worker [1 per core]")
            ->check(CLI::PositiveNumber);
        up->add_option("--gpus", up_.gpus, "GPUs of the worker [all]")
            ->check(CLI::NonNegativeNumber);
        up->add_option(
            "--memory", up_.memory,
            "Memory that the worker offers, e.g. 60GiB; default: the memory of the machine");
        up->add_option("--cpus", up_.cpus, "CPUs that the worker offers [all]");
        up->add_option("--endpoint", up_.endpoint,
                       "Where rolld listens, e.g. tcp://0.0.0.0:7070 [this machine only]");
        up->add_option("--shared", up_.shared, "Directory that all Slurm nodes mount, for pilots");
        up->add_option("--slurm-poll", up_.slurm_poll, "Seconds between two squeue calls [20]");
        up->add_flag("--no-worker", up_.no_worker, "Start only rolld; workers come from Slurm");
        CLI::App* down = command("down", "Stop rolld and the worker; running jobs save first",
                                 [this] { return run_down(context_, now_); });
        down->add_flag("--now", now_, "Do not wait for checkpoints");
        CLI::App* doctor = command("doctor", "Check the installation and suggest fixes",
                                   [this] { return run_doctor(context_, slurm_); });
        doctor->add_flag("--slurm", slurm_, "Also check that Slurm pilot jobs can run from here");
        CLI::App* web = command("web", "Serve the dashboard and metrics over HTTP until Ctrl-C",
                                [this] { return run_web(context_, web_); });
        add_web_options(*web, web_);
        command("version", "Print the versions of rollctl and rolld",
                [this] { return run_version(context_); });
        CLI::App* completion = command("completion", "Print a completion script: bash, zsh or fish",
                                       [this] { return run_completion(word_, commands()); });
        completion->add_option("SHELL", word_, "bash, zsh or fish")->required();
    }

    // Adds a command that has subcommands, such as `secret`. `add` adds the subcommands.
    void add_group(const char* name, const char* what, AddCommands* add) {
        add_subcommands(*app_.add_subcommand(name, what), add);
    }

    void add_subcommands(CLI::App& above, AddCommands* add) {
        add(
            above,
            [this](auto& sub, auto& word, auto& help, auto action) {
                return command_of(&sub, word, help, std::move(action));
            },
            context_);
    }

    void add_submit() {
        CLI::App* submit = command(
            "submit", "Submit jobs: FILE..., or -- PROGRAM ARGUMENT..., or SCRIPT [-- ARGUMENT...]",
            [this] { return run_submit(context_, submit_); });
        submit->add_option(
            "FILE", submit_.files,
            "Job files (YAML, JSON or .toml; - reads stdin), or a script that starts with #!");
        add_submit_options(submit);
    }

    void add_sweep() {
        CLI::App* sweep = command("sweep", "Submit a sweep: FILE...; or show a sweep's trials",
                                  [this] { return run_sweep(context_, submit_); });
        sweep->add_option("FILE", submit_.files, "Job files with the key `sweep`");
        add_submit_options(sweep);
        add_subcommands(*sweep, add_sweep_commands);
        sweep->require_subcommand(0, 1);
        // CLI11 calls this callback even if a subcommand was given.
        sweep->callback([this, sweep] {
            if (sweep->get_subcommands().empty())
                chosen_ = [this] { return run_sweep(context_, submit_); };
        });
    }

    void add_open() {
        CLI::App* open = command("open", "Create a job group; add jobs with `submit --into ID`",
                                 [this] { return run_open(context_, submit_, word_); });
        open->add_option("NAME", word_, "Name of the group")->required();
        open->add_option("--account", submit_.job.account, "Account whose quota the group uses");
        open->add_option("--key", submit_.key,
                         "Idempotency key: a second request with the key opens no second group");
        CLI::App* close = command(
            "close", "Close job groups to new jobs; a closed group ends when its last job ends",
            [this] { return run_close(context_, word_); });
        add_selector(*close, word_)->required();
    }

    void add_resubmit() {
        CLI::App* resubmit = command("resubmit", "Submit finished jobs again", [this] {
            return run_resubmit(context_, word_, failed_, submit_);
        });
        add_selector(*resubmit, word_)->required();
        resubmit->add_flag("--failed", failed_, "Only jobs that failed or were cancelled");
        add_submit_options(resubmit);
    }

    void add_resume() {
        CLI::App* resume = command("resume", "Submit a job that continues JOB's newest checkpoint",
                                   [this] { return run_resume(context_, word_, submit_); });
        resume->add_option("JOB", word_, "Id or name of the job, or `last`")->required();
        add_submit_options(resume);
    }

    static void add_format(CLI::App* sub, std::string& format, const std::string& variable) {
        sub->add_option("-o,--format", format,
                        "Fields to show: a list such as id,name; a pattern such as '{id} "
                        "{name:<20}'; or a name from formats.yaml. `help` lists all fields")
            ->envname(variable);
    }

    void add_queries() {
        CLI::App* jobs = command("jobs", "List queued and running jobs; -a adds finished jobs",
                                 [this] { return run_jobs(context_, jobs_); });
        add_jobs_options(*jobs, jobs_);
        add_format(jobs, jobs_.format, "ROLL_JOBS_FORMAT");
        CLI::App* show = command("show", "Show a job's attempts, checkpoints and export",
                                 [this] { return run_show(context_, word_, diff_); });
        show->add_option("JOB", word_, "Id or name of the job, or `last`")->required();
        show->add_flag("--diff", diff_, "Print the `git diff` saved at the submission");
        CLI::App* explain = command("explain", "Explain why a job waits and how to let it run",
                                    [this] { return run_explain(context_, word_); });
        explain->add_option("JOB", word_, "Id or name of the job, or `last`")->required();
        add_logs_options(*command("logs", "Print the logs of jobs",
                                  [this] { return run_logs(context_, logs_); }),
                         logs_);
        CLI::App* events = command("events", "List events of one job or of all jobs",
                                   [this] { return run_events(context_, events_); });
        events->add_option("JOB", events_.selector, "Id or name of the job, or `last` [all jobs]");
        events->add_flag("-f,--follow", events_.follow, "Keep printing new events");
        events->add_flag("--jsonl", events_.lines, "Print one JSON value per line");
        CLI::App* metrics = command("metrics", "Print the loss, learning rate and speed of a job",
                                    [this] { return run_metrics(context_, metrics_); });
        add_metrics_options(*metrics, metrics_);
        command("top", "Watch jobs, nodes and allocations live; ? lists the keys, q quits",
                [this] { return run_top(context_); });
        add_usage_options(*command("usage", "Show your share, your limits and your waiting jobs",
                                   [this] { return run_usage(context_, usage_); }),
                          usage_);
        add_report_options(*command("report", "Show used and wasted GPU-hours and slot-hours",
                                    [this] { return run_report(context_, report_); }),
                           report_);
        add_shell_options(
            *command("shell", "Open a terminal in a running job: JOB [-- PROGRAM ARGUMENT...]",
                     [this] { return run_shell(context_, shell_, submit_.program); }),
            shell_);
    }

    void add_steering() {
        CLI::App* wait = command("wait", "Wait until jobs end and exit with their exit code",
                                 [this] { return run_wait(context_, words_, follow_); });
        wait->add_option("JOBS", words_, "Ids (7, 3-9, 1,4 or 12_3), `last` or a name")->required();
        wait->add_flag("-f,--follow", follow_, "Show the progress of the jobs one by one");
        CLI::App* cancel = command("cancel", "Cancel queued and running jobs",
                                   [this] { return run_cancel(context_, word_, reason_); });
        add_selector(*cancel, word_)->required();
        cancel->add_option("--reason", reason_, "Reason to show with the job");
        CLI::App* hold = command("hold", "Do not start queued jobs before `rollctl release`",
                                 [this] { return run_hold(context_, word_, true); });
        add_selector(*hold, word_)->required();
        CLI::App* release = command("release", "Let held jobs start",
                                    [this] { return run_hold(context_, word_, false); });
        add_selector(*release, word_)->required();
        CLI::App* requeue =
            command("requeue", "Stop running jobs, after a checkpoint, and queue them again",
                    [this] { return run_requeue(context_, word_); });
        add_selector(*requeue, word_)->required();
        CLI::App* update = command("update", "Change queued jobs: priority=5 or max, begin=+2h",
                                   [this] { return run_update(context_, word_, words_); });
        update->add_option("JOBS", word_, "Ids (7, 3-9, 1,4 or 12_3), `last`, `all` or a name")
            ->required();
        update->add_option("SETTING", words_, "What to change, e.g. priority=5")->required();
        CLI::App* checkpoint = command("checkpoint", "Save a checkpoint of a running job now",
                                       [this] { return run_checkpoint(context_, tell_); });
        CLI::App* tell = command("tell", "Send a request to a training job: profile 5, ...",
                                 [this] { return run_tell(context_, tell_); });
        add_tell_options(*checkpoint, *tell, tell_);
        add_format(command("nodes", "List nodes", [this] { return run_nodes(context_, word_); }),
                   word_, "ROLL_NODES_FORMAT");
        CLI::App* drain = command("drain", "Stop scheduling new jobs on a node", [this] {
            return run_drain(context_, word_, all_, true, reason_);
        });
        CLI::App* undrain = command("undrain", "Schedule jobs on a node again; clear its faults",
                                    [this] { return run_drain(context_, word_, all_, false); });
        for (CLI::App* one : {drain, undrain}) {
            CLI::Option* node = one->add_option("NODE", word_, "Name of the node");
            one->add_flag("--all", all_, "All nodes, also ones that join later")->excludes(node);
        }
        drain->add_option("-m,--message", reason_, "Reason; Roll shows it with every waiting job")
            ->needs("--all");
    }

    void add_alloc() {
        CLI::App* alloc = app_.add_subcommand("alloc", "Manage queues of Slurm allocations");
        const auto sub = [&](const std::string& name, const std::string& what, Action action) {
            return command_of(alloc, name, what, std::move(action));
        };
        add_format(sub("list", "List allocation queues and their allocations",
                       [this] { return run_alloc_list(context_, word_); }),
                   word_, "ROLL_ALLOC_FORMAT");
        add_alloc_options(
            *sub("add", "Add a queue; rolld requests allocations for it when jobs need nodes",
                 [this] { return run_alloc_add(context_, alloc_); }),
            alloc_);
        for (const AllocVerb& verb : alloc_verbs())
            sub(verb.name, verb.what,
                [this, name = verb.name] { return run_alloc_steer(context_, name, word_); })
                ->add_option(verb.argument, word_, verb.argument_help())
                ->required();
    }

    // Adds the commands that run another installed program, roll-convert or roll-rank. rollctl
    // passes the command's arguments to the program.
    void add_checkpoint_work() {
        CLI::App* plan = command("plan", "Show what a training job would do, without running it",
                                 [this] { return run_plan(context_, word_, plan_, submit_.job); });
        add_plan_options(*plan, plan_);
        add_job_options(*plan, submit_.job);
        CLI::App* prove = command("prove", "Compare a job's parallel layout with a run on one rank",
                                  [this] { return run_prove(context_, word_, submit_.job); });
        add_job_options(*prove, submit_.job);
        for (CLI::App* sub : {plan, prove})
            sub->add_option("FILE", word_, "Job file of a training job")->required();
        command_of(app_.add_subcommand("data", "Show training data"), "preview",
                   "Show the first documents as tokens; mark the tokens that count in the loss",
                   [this] { return run_preview(context_, preview_); });
        add_preview_options(*app_.get_subcommand("data")->get_subcommand("preview"), preview_);
        add_conversion("convert", "Convert a checkpoint: SRC DST [--to FORMAT] ...");
        add_conversion("merge", "Merge a LoRA adapter into its base: BASE ADAPTER DST");
        pass("slurm", "Run Roll's version of sbatch, squeue, sacct, scancel or sinfo", "");
        pass("compat", "Write Roll's versions of Slurm's commands to the directory DIR", "");
        pass("inspect", "Show what a checkpoint contains: DIR", "roll-convert");
        pass("verify", "Check a checkpoint for damage: DIR", "roll-convert");
        pass("diff", "Compare two checkpoints: A B", "roll-convert");
        pass("rename", "Copy a checkpoint, renaming tensors: SRC DST OLD=NEW ...", "roll-convert");
        pass("remove", "Copy a checkpoint without some tensors: SRC DST NAME ...", "roll-convert");
        pass("families", "List model families; `check FILE` checks a family file", "roll-convert");
        pass("eval", "Evaluate a model: DIR [--task FILE] ... [--data FILE] ...", "roll-rank");
        pass("generate", "Generate text with a model: DIR \"prompt\" ...", "roll-rank");
    }

    // Adds the command `name`: `convert` or `merge`. Both commands take the arguments of
    // roll-convert. With --submit, they also take the options of a job.
    void add_conversion(const std::string& name, const std::string& what) {
        CLI::App* sub = app_.add_subcommand(name, what);
        sub->allow_extras();
        sub->set_help_flag();
        sub->add_flag("--parsable", context_.parsable);
        sub->add_option("--dir", context_.directory);
        sub->add_flag("--submit", submits_);
        sub->add_option("--name", submit_.job.name);
        sub->add_option("--slots", submit_.job.slots);
        sub->add_option("--nodes", submit_.job.nodes);
        sub->add_option("--time", submit_.job.time);
        sub->add_option("--after", submit_.job.after)->allow_extra_args(false);
        sub->add_flag("--hold", submit_.job.hold);
        sub->add_option("--key", submit_.key);
        sub->add_flag("--wait", submit_.wait);
        sub->add_flag("--follow", submit_.follow);
        sub->callback([this, sub, name] {
            chosen_ = [this, sub, name] { return run_conversion(sub, name); };
        });
    }

    Result<int> run_conversion(const CLI::App* sub, const std::string& name) {
        std::vector<std::string> words = {name};
        for (const std::string& word : sub->remaining()) words.push_back(word);
        const bool said = std::find(words.begin(), words.end(), "--json") != words.end();
        if (context_.json && !said) words.emplace_back("--json");
        context_.json |= said;
        // With --submit, --name names the job. Only for NeMo targets, it also names the model.
        const bool nemo = std::find(words.begin(), words.end(), "nemo") != words.end();
        if (!submit_.job.name.empty() && (nemo || !submits_))
            words.insert(words.end(), {"--name", submit_.job.name});
        ROLL_TRY_VOID(replace_models(context_, words));
        if (submits_) return run_submit_conversion(context_, words, submit_);
        for (const char* option : {"--slots", "--nodes", "--time", "--after", "--hold", "--key",
                                   "--wait", "--follow", "--parsable", "--dir"}) {
            if (sub->count(option) == 0) continue;
            return fail(ErrorCode::InvalidArgument, fmt::format("{} requires --submit", option),
                        fmt::format("rollctl {} --help", name));
        }
        return tl::unexpected(become("roll-convert", words));
    }

    void pass(const std::string& name, const std::string& what, const std::string& program) {
        CLI::App* sub = app_.add_subcommand(name, what);
        sub->prefix_command();
        sub->set_help_flag();
        sub->callback([this, sub, name, program] {
            chosen_ = [this, sub, name, program]() -> Result<int> {
                std::vector<std::string> arguments = {name};
                for (const std::string& word : sub->remaining()) arguments.push_back(word);
                if (program.empty()) return run_slurm(context_, arguments);
                const bool said = std::ranges::find(arguments, "--json") != arguments.end();
                if (context_.json && !said) arguments.emplace_back("--json");
                ROLL_TRY_VOID(replace_models(context_, arguments));
                return tl::unexpected(become(program, arguments));
            };
        });
    }

    CLI::App app_{"rollctl: submit, watch and inspect LLM training jobs", "rollctl"};
    Context context_;
    std::string color_ = "auto";
    UpOptions up_;
    SubmitOptions submit_;
    ShellOptions shell_;
    PlanFiles plan_;
    PreviewOptions preview_;
    JobsOptions jobs_;
    UsageOptions usage_;
    ReportOptions report_;
    TellOptions tell_;
    AllocOptions alloc_;
    LogsOptions logs_;
    MetricsOptions metrics_;
    EventsOptions events_;
    std::string word_;
    std::vector<std::string> words_;
    std::string reason_;
    bool now_ = false, failed_ = false, all_ = false, slurm_ = false;
    WebOptions web_;
    bool submits_ = false, follow_ = false, diff_ = false;
    Action chosen_;
};

}  // namespace

int run(int argc, char** argv) {
    const int own = words_before_program(argc, argv);
    std::vector<std::string> program(argv + std::min(own + 1, argc), argv + argc);
    return Parser(std::move(program)).run(own, argv);
}

}  // namespace roll::cli
