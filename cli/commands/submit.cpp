#include <functional>
#include <optional>
#include <random>

#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/logs.hpp"
#include "cli/commands/slurm.hpp"
#include "cli/job/environment.hpp"
#include "cli/job/git.hpp"
#include "cli/job/staged_files.hpp"
#include "cli/show/follow.hpp"
#include "cli/show/job_view.hpp"
#include "cli/show/layout_view.hpp"
#include "cli/slurm/directives.hpp"
#include "cli/submit/checks.hpp"
#include "cli/submit/layout_choice.hpp"
#include "cli/text/render.hpp"
#include "common/hash.hpp"
#include "common/io/process.hpp"
#include "common/protocol/client.hpp"
#include "common/protocol/submit_operations.hpp"
#include "common/spec/job/job_json.hpp"

namespace roll::cli {

std::string draw_key() {
    std::random_device random;
    const auto draw = [&] { return (std::uint64_t{random()} << 32) | random(); };
    return to_hex(draw()) + to_hex(draw());
}

namespace {

// Sentences that tell the user how rollctl has read the job files
using Notes = std::vector<std::string>;

// Submits the jobs. After a lost reply, sends the request again with the same key, so that rolld
// queues each job only once.
std::vector<Result<Json>> send(Daemon& daemon, const std::vector<spec::JobSpec>& specs,
                               const std::string& key, bool strict) {
    const std::string user = user_name();
    std::vector<protocol::SubmitArgs> args;
    for (std::size_t i = 0; i < specs.size(); ++i)
        args.push_back({.key = i == 0 ? key : fmt::format("{}.{}", key, i),
                        .user = user,
                        .spec = spec::json_of(specs[i]),
                        .strict = strict});
    return daemon.ask_each_patiently(args, std::chrono::seconds(20));
}

// Warns about a job that no worker and no allocation can run now. rolld has queued the job
// nevertheless, because a suitable worker may connect later.
void warn_of_never(const Json& reply) {
    const Json hold = reply.value("cannot_run", Json());
    if (!hold.is_object()) return;
    say(fmt::format(
        "job {}: neither a connected node nor a requested allocation can run it: {}; {}",
        field_text(reply, "id"), field_text(hold, "why"), field_text(hold, "remedy")));
}

// Returns whether --follow prints the job's output. This is so only if the submission is a single
// job of kind command.
bool follows_output(const Context& context, const SubmitOptions& options, const Json& reply,
                    const std::vector<spec::JobSpec>& specs) {
    return options.follow && !context.json && !context.parsable && specs.size() == 1 &&
           specs[0].kind == spec::JobKind::Command && reply.value("jobs", std::uint64_t{1}) == 1;
}

// Prints the job that was queued. If `prints_output`, prints the job on stderr, because stdout gets
// the output of the job.
void print_queued(const Context& context, const SubmitOptions& options, const Json& reply,
                  const spec::JobSpec& spec, bool prints_output) {
    const auto id = reply.value("id", std::uint64_t{0});
    if (options.as_sbatch) {
        if (context.parsable)
            print(fmt::format("{}\n", id));
        else if (!options.quiet)
            print(fmt::format("Submitted batch job {}\n", id));
        return;
    }
    if (context.parsable) {
        for (std::uint64_t task = 0; task < reply.value("jobs", std::uint64_t{1}); ++task)
            print(fmt::format("{}\n", id + task));
        return;
    }
    if (spec.open) {
        print(fmt::format("job group {} {} is open\n", id, spec.name));
        say(fmt::format("  next: rollctl submit --into {0} ..., then rollctl close {0}", id));
        return;
    }
    const auto jobs = reply.value("jobs", std::uint64_t{1});
    const std::string which =
        jobs == 1 ? fmt::format("job {}", id) : fmt::format("jobs {}-{}", id, id + jobs - 1);
    const std::string line =
        fmt::format("{} {}{}", which, reply.value("name", spec.name),
                    reply.value("repeated", false) ? " (already queued with this key)"
                    : jobs == 1                    ? " is queued"
                                                   : " are queued");
    prints_output ? say(line) : print(line + "\n");
    if (!context.terminal) return;
    say(fmt::format("  output  {}", reply.value("output", spec.output)));
    say(fmt::format("  follow  rollctl logs {} -f", id));
    if (spec.kind == spec::JobKind::Train || spec.kind == spec::JobKind::Resume) {
        say(fmt::format("  plot    rollctl metrics {} --plot", id));
    }
    say(fmt::format("  look    rollctl show {}", id));
    say(fmt::format("  cancel  rollctl cancel {}", id));
}

// Prints the outcome of a submission as one JSON value. After an error, the value contains the
// error and the jobs that were queued. With --follow and without an error, prints nothing, because
// the progress was already printed.
void print_outcome(const SubmitOptions& options, const Json& replies, const Json& ended,
                   const std::optional<Error>& trouble, const Notes& notes) {
    Json value = {{"schema", "roll.submits/1"}, {"submitted", replies}};
    if (!trouble && options.follow) return;
    if (!trouble && options.wait) value = {{"schema", "roll.jobs/1"}, {"jobs", ended}};
    if (!trouble && !options.wait && replies.size() == 1) value = replies[0];
    if (trouble) value["error"] = protocol::error_json(*trouble)["error"];
    if (trouble && options.wait) value["jobs"] = ended;
    if (!notes.empty()) value["notes"] = notes;
    options.follow ? print_json_line(value, "roll.submits/1") : print_json(value);
}

// Fails if the key is too long. The keys of the second and later jobs of a submission end with a
// dot and a number. These keys must also fit into kKeyBytesMax bytes.
Result<void> check_key(const std::string& key) {
    constexpr std::size_t kLongest = protocol::kKeyBytesMax - 16;
    if (key.size() <= kLongest) return {};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("--key has {} bytes; allowed: at most {}", key.size(), kLongest));
}

Result<int> submit_specs(const Context& context, const SubmitOptions& options,
                         const std::vector<spec::JobSpec>& specs, const Notes& notes = {},
                         const std::function<Result<void>(Daemon&)>& prepare = {}) {
    ROLL_TRY_VOID(check_key(options.key));
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    if (const auto uid = daemon.runs_as()) ROLL_TRY_VOID(check_outputs(specs, *uid));
    if (prepare) ROLL_TRY_VOID(prepare(daemon));
    const std::string key = options.key.empty() ? draw_key() : options.key;
    std::vector<std::uint64_t> ids;
    Json replies = Json::array();
    std::optional<Error> trouble;  // first error of a submission
    bool prints_output = false;
    const std::vector<Result<Json>> answers = send(daemon, specs, key, options.strict);
    for (std::size_t i = 0; i < specs.size(); ++i) {
        if (!answers[i]) {
            if (!trouble) trouble = answers[i].error();
            continue;
        }
        const Json& reply = *answers[i];
        const auto id = reply.value("id", std::uint64_t{0});
        for (std::uint64_t task = 0; task < reply.value("jobs", std::uint64_t{1}); ++task)
            ids.push_back(id + task);
        prints_output = follows_output(context, options, reply, specs);
        if (!context.json) print_queued(context, options, reply, specs[i], prints_output);
        if (!context.json) warn_of_never(reply);
        replies.push_back(reply);
    }
    if (replies.empty() && trouble) return tl::unexpected(*std::move(trouble));
    if (trouble && !context.json) print_error(context, *trouble);
    int status = trouble ? exit_code(trouble->code) : 0;
    Json ended = Json::array();
    if (options.wait || options.follow) {
        const auto watched = prints_output
                                 ? follow_output(context, daemon, ids[0])
                                 : watch_jobs(context, daemon, ids, options.follow, ended);
        if (!watched && !context.json) print_error(context, watched.error());
        if (!watched && !trouble) trouble = watched.error();
        status = trouble ? kOwnTrouble : *watched;
    }
    if (context.json) print_outcome(options, replies, ended, trouble, notes);
    return status;
}

// Prints the jobs of --dry-run, with all defaults filled in. If rolld runs, also prints rolld's
// forecast for each job.
Result<int> print_specs(const Context& context, const std::vector<spec::JobSpec>& specs,
                        const Notes& notes) {
    auto daemon = Daemon::connect(context);
    const auto uid = daemon ? daemon->runs_as() : std::nullopt;
    if (uid) ROLL_TRY_VOID(check_outputs(specs, *uid));
    Json jobs = Json::array();
    for (const spec::JobSpec& spec : specs) {
        Json job = spec::json_of(spec);
        if (daemon) {
            ROLL_TRY(job["forecast"],
                     daemon->ask(protocol::ForecastArgs{.user = user_name(), .spec = job}));
        }
        job["document"] = Json::parse(spec.document.text());
        jobs.push_back(std::move(job));
    }
    Json value = {{"schema", "roll.dry_run/1"}, {"jobs", jobs}};
    if (!notes.empty()) value["notes"] = notes;
    print_json(value);
    return 0;
}

bool is_script(const Source& source) {
    return source.document.is_object() && source.document.contains("script");
}

}  // namespace

Result<int> submit_sources(const Context& context, const SubmitOptions& options,
                           std::vector<Source> sources) {
    ROLL_TRY(const JobOptions environment, options_of_environment());
    Notes notes;
    for (Source& source : sources) {
        ROLL_TRY_VOID(override_keys(environment, source));
        ROLL_TRY_VOID(apply_options(options.job, source));
        ROLL_TRY_VOID(replace_selectors(context, source.document));
        for (std::string& note : notes_of(source)) {
            if (!options.quiet) say(note);
            notes.push_back(std::move(note));
        }
        const auto left_out =
            capture_environment(source.document, io::current_environment(), user_name());
        if (!left_out.empty())
            say(
                fmt::format("{}: not exported, because the names look like secrets: {}; store a "
                            "secret with `rollctl secret set NAME` and add --secret NAME",
                            source.label, fmt::join(left_out, ", ")));
    }
    PieceBytes pieces;
    for (Source& source : sources) ROLL_TRY_VOID(read_files(source.document, source.base, pieces));
    ROLL_TRY(const std::vector<Json> layouts, choose_layouts(context, sources));
    for (const Json& layout : layouts) {
        for (std::string& line : layout_lines(layout)) {
            if (!options.quiet) say(for_terminal(context, line));
            notes.push_back(std::move(line));
        }
    }
    ROLL_TRY(std::vector<spec::JobSpec> specs, parse_sources(sources));
    ROLL_TRY_VOID(check_memory_limits(specs));
    for (std::string& warning : span_warnings(specs)) {
        say(warning);
        notes.push_back(std::move(warning));
    }
    if (!context.json && !options.quiet)
        for (const std::string& warning : train_warnings(specs)) say(warning);
    // The working directory is not the directory of a stored document's job file.
    for (std::size_t i = 0; i < specs.size() && !options.no_git; ++i)
        add_git(specs[i], sources[i].stored ? "/" : sources[i].base, specs.size());
    if (options.dry_run) return print_specs(context, specs, notes);
    return submit_specs(context, options, specs, notes, [&](Daemon& daemon) {
        std::vector<Json> documents;
        for (const Source& source : sources) documents.push_back(source.document);
        return send_files(daemon, documents, pieces);
    });
}

Result<int> submit_batch(const Context& context, const SubmitOptions& options, SbatchJob job) {
    Context own = context;
    own.parsable |= job.parsable;
    SubmitOptions all = options;
    all.wait |= job.wait;
    all.quiet |= job.quiet;
    all.dry_run |= job.test_only;
    return submit_sources(own, all, {std::move(job.source)});
}

Result<int> run_submit(const Context& context, const SubmitOptions& options) {
    std::vector<Source> sources;
    for (const std::string& file : options.files) {
        ROLL_TRY(const std::string text, read_job_text(file));
        if (sources.empty() && text.starts_with("#!") && has_directives(text)) {
            // As in sbatch, the words after the script are arguments of the script.
            std::vector<std::string> arguments(options.files.begin() + 1, options.files.end());
            arguments.insert(arguments.end(), options.program.begin(), options.program.end());
            ROLL_TRY(SbatchJob job, read_batch_script(text, file, {}, arguments));
            return submit_batch(context, options, std::move(job));
        }
        ROLL_TRY(std::vector<Source> of_file, job_sources(text, file));
        for (Source& source : of_file) sources.push_back(std::move(source));
    }
    const bool script = sources.size() == 1 && is_script(sources[0]);
    if (script) {
        for (const std::string& word : options.program)
            sources[0].document["command"].push_back(word);
    } else if (options.files.empty() == options.program.empty()) {
        return fail(ErrorCode::InvalidArgument,
                    "submit needs job files (submit FILE...), a program (submit -- PROGRAM "
                    "ARGUMENT...) or a script (submit SCRIPT -- ARGUMENT...)",
                    "rollctl submit train.yaml, or rollctl submit -- sh -c 'echo hello'");
    } else if (!options.program.empty()) {
        ROLL_TRY(Source program, command_source(options.program));
        sources.push_back(std::move(program));
    }
    return submit_sources(context, options, std::move(sources));
}

Result<int> run_open(const Context& context, const SubmitOptions& options,
                     const std::string& name) {
    ROLL_TRY(
        std::vector<spec::JobSpec> specs,
        parse_sources(
            {{"the open job", {{"kind", "command"}, {"name", name}, {"command", {"true"}}}, "/"}}));
    spec::JobSpec& spec = specs.front();
    spec.open = true;
    spec.output.clear();
    spec.account = options.job.account;
    spec.document = Json{{"name", name}, {"kind", "open"}}.dump();
    return submit_specs(context, options, specs);
}

// Fails with InvalidArgument if train.steps is less than the step of the newest checkpoint of
// `job`. `document`: the job file of the new job, which resumes `job`. `sets`: the values of --set,
// which override keys of the job file.
static Result<void> check_steps(const Json& job, Json document,
                                const std::vector<std::string>& sets) {
    for (const std::string& assignment : sets) ROLL_TRY_VOID(set_key(document, assignment));
    const Json steps = document.value(Json::json_pointer("/train/steps"), Json());
    std::int64_t newest = 0;
    for (const Json& one : job.value("checkpoints", Json::array()))
        newest = std::max(newest, one.value("step", std::int64_t{0}));
    if (!steps.is_number_integer() || steps >= newest) return {};
    return fail(ErrorCode::InvalidArgument,
                fmt::format("train.steps is {}; allowed: at least {}, the step of the newest "
                            "checkpoint of job {}",
                            steps.get<std::int64_t>(), newest, field_text(job, "id")));
}

Result<int> run_resume(const Context& context, const std::string& selector,
                       const SubmitOptions& options) {
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, selector));
    ROLL_TRY(const Json job, daemon.show(id));
    Json document = job.value("spec", Json());  // the job file with all defaults filled in
    const Json kind = document.is_object() ? document.value("kind", Json()) : Json();
    if (kind != "train" && kind != "resume") {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("job {} is not a training job; resume continues only training jobs", id));
    }
    ROLL_TRY_VOID(refuse_hidden_values(job));
    ROLL_TRY_VOID(check_steps(job, document, options.job.sets));
    document["kind"] = "resume";
    document["resume"] = {{"job", id}};
    document["hold"] = false;
    for (const char* key : {"begin", "deadline", "array", "sweep", "cron"}) document.erase(key);
    document["after"] = Json::array();
    // The new job writes to a new directory, next to the output directory of the resumed job.
    std::string output = document.value("output", "");
    if (output.find("{id}") == std::string::npos) output += "-resumed-{id}";
    document["output"] = output;
    ROLL_TRY(std::string base, working_directory());
    return submit_sources(context, options,
                          {Source{.label = fmt::format("job {}, resumed", id),
                                  .document = std::move(document),
                                  .base = std::move(base),
                                  .stored = true}});
}

}  // namespace roll::cli
