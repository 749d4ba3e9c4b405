#include "cli/job/options.hpp"

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "common/number.hpp"
#include "common/spec/schema/placeholders.hpp"
#include "common/spec/schema/units.hpp"
#include "common/yaml/yaml.hpp"

namespace roll::cli {

Result<void> set_key(Json& document, const std::string& assignment) {
    const std::size_t equals = assignment.find('=');
    if (equals == std::string::npos || equals == 0) {
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("--set {}: expected KEY=VALUE, e.g. --set train.steps=600", assignment));
    }
    ROLL_TRY(Json value, yaml::read_value(assignment.substr(equals + 1)));
    const std::string path = assignment.substr(0, equals);
    Json* place = &document;
    for (std::size_t from = 0;;) {
        const std::size_t dot = path.find('.', from);
        const std::string key = path.substr(from, dot - from);
        if (place->is_null()) *place = Json::object();
        if (!place->is_object() || key.empty()) {
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("--set {}: each part of the path {} must be the name of a key, "
                                    "and all parts but the last one must name mappings",
                                    assignment, path));
        }
        place = &(*place)[key];
        if (dot == std::string::npos) break;
        from = dot + 1;
    }
    *place = std::move(value);
    // A job file gives the length of a training in steps or in epochs. Setting one of these keys
    // therefore removes the other.
    if (path == "train.steps") document["train"].erase("epochs");
    if (path == "train.epochs") document["train"].erase("steps");
    return {};
}

namespace {

constexpr std::string_view kDirective = "#ROLL ";

Result<void> parse_words(const std::string& words, JobOptions& options) {
    CLI::App app;
    app.set_help_flag();
    add_queue_options(app, options);
    try {
        app.parse(words);
    } catch (const CLI::ParseError& e) {
        return fail(ErrorCode::InvalidArgument, e.what(),
                    "#ROLL lines and ROLL_SUBMIT accept only the options of `rollctl submit "
                    "--help` that set a key of the job file");
    }
    return {};
}

}  // namespace

void add_job_options(CLI::App& app, JobOptions& options) {
    app.add_option("--set", options.sets,
                   "Override a key of the job file: KEY=VALUE, e.g. train.steps=600; repeatable")
        ->allow_extra_args(false);
    app.add_option("--slots", options.slots, "CPU slots per node");
    app.add_option("--gpus", options.gpus, "GPUs per node, or a fraction of one GPU, e.g. 0.5");
    app.add_option("--nodes", options.nodes, "Number of nodes");
    app.add_option("--tasks-per-node", options.tasks,
                   "Number of processes of the command on each node; all processes form a gang "
                   "(docs/gangs.md)");
    app.add_option("--memory", options.memory,
                   "Memory per node, e.g. 4GiB; an attempt that uses more is ended");
    app.add_option("--cpus", options.cpus, "CPUs per node that the job may use at a time");
    app.add_option("--time", options.time, "Time limit per attempt: 90s, 1h 30m, 1-12:00:00");
    app.add_option("--name", options.name, "Name of the job");
}

void add_queue_options(CLI::App& app, JobOptions& options) {
    add_job_options(app, options);
    app.add_flag_callback(
        "--verify-data", [&options] { options.sets.emplace_back("data.verify=true"); },
        "Read and check all training data before the first step (sets data.verify)");
    app.add_option("--after", options.after,
                   "Start after job ID: ok:ID, any:ID, failed:ID or exported:ID; ID may be `last` "
                   "or a name; repeatable")
        ->allow_extra_args(false);
    app.add_option("--begin", options.begin, "Earliest start: 2026-11-22T08:00:00Z, or +2h");
    app.add_option("--deadline", options.deadline,
                   "Time at which an unfinished job is cancelled; same forms as --begin");
    app.add_option("--array", options.array,
                   "Submit a job per index: 0-15 or 1,4-9; 0-15%4 runs at most 4 at once");
    app.add_option("--cron", options.cron, "Repeat on a schedule, in UTC: '30 3 * * 1-5', @daily");
    app.add_option("--account", options.account, "Account whose quota and fair share the job uses");
    app.add_option("--into", options.into,
                   "Job group for the job: ID, name or `last`; `rollctl open` creates a job group");
    app.add_option("--secret", options.secrets,
                   "Secret to put into the job's environment (rollctl secret); repeatable")
        ->allow_extra_args(false);
    app.add_option("--env", options.env,
                   "Environment variable of a command: NAME=VALUE, or only NAME to copy its value "
                   "from this shell; repeatable")
        ->allow_extra_args(false);
    app.add_option(
           "--file", options.files,
           "Small file to send with the command: PATH or PATH:NAME; the command finds it in "
           "the directory $ROLL_FILES; repeatable (key `files`)")
        ->allow_extra_args(false);
    app.add_option("--export", options.export_env,
                   "Variables to copy from this environment: default (PATH, VIRTUAL_ENV, CONDA_*), "
                   "all (without names that look like secrets) or none");
    app.add_option("--workdir", options.workdir, "Working directory of the command");
    app.add_option("--container", options.container,
                   "Image of the container in which the command runs (key `container.image`)");
    app.add_option("--output", options.output,
                   "File for the command's output, such as %x-%j-%r.log (key `stdout`)");
    app.add_option("--error", options.error,
                   "File for the command's standard error (key `stderr`)");
    app.add_option("--priority", options.priority, "Jobs of higher priority start first [0]");
    app.add_flag("--hold", options.hold, "Do not start the job before `rollctl release`");
}

Result<Time> parse_when(const std::string& text, Time now, const std::string& option) {
    if (text == "now") return now;
    if (text.starts_with('+')) {
        if (const auto from_now = spec::parse_duration(text.substr(1))) return now + *from_now;
    } else if (const auto time = spec::parse_instant(text)) {
        return *time;
    }
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} is {}; allowed: a time such as 2026-11-22T08:00:00Z, "
                            "2026-11-22T08:00+01:00 or 2026-11-22, or a duration from now such as "
                            "+2h or +1-12:00:00",
                            option, text));
}

Result<std::chrono::seconds> duration_of(const std::string& option, const std::string& text) {
    if (const auto duration = spec::parse_duration(text)) return *duration;
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} is {}; allowed: a duration such as 90s, 1h 30m, 1-12:00:00 or "
                            "HH:MM:SS",
                            option, text.empty() ? "empty" : text));
}

// Returns a whole number as a JSON integer, so that messages show it without
// ".0".
static Json number_json(double number) {
    const bool whole = number == std::floor(number) && std::abs(number) < 1e6;
    return whole ? Json(static_cast<int>(number)) : Json(number);
}

// Returns a job's id as a JSON number. If the text is not a number, returns the text.
static Json number_or_text(const std::string& text) {
    const auto number = parse_number<std::uint64_t>(text);
    return number ? Json(*number) : Json(text);
}

// Sets the variables of --env in the document's `env`.
static Result<void> set_variables(const std::vector<std::string>& words, Json& document) {
    for (const std::string& word : words) {
        const std::string name = word.substr(0, word.find('='));
        const char* const here = std::getenv(name.c_str());
        if (name.empty() || (name == word && here == nullptr))
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("--env is {}; allowed: NAME=VALUE, or the NAME of a variable "
                                    "that is set here",
                                    name.empty() ? "\"" + word + "\"" : word));
        if (!document.contains("env")) document["env"] = Json::object();
        if (document["env"].is_object())
            document["env"][name] = name == word ? here : word.substr(name.size() + 1);
    }
    return {};
}

// Adds the paths of --file to `files`. These paths are relative to the working directory, while the
// paths in the job file are relative to the directory of the job file.
static Result<void> add_files(const std::vector<std::string>& words, Json& document) {
    for (const std::string& word : words) {
        std::error_code error;
        const std::size_t colon = word.rfind(':');
        const auto absolute = std::filesystem::absolute(word.substr(0, colon), error);
        const std::string name =
            colon == word.npos ? absolute.filename().string() : word.substr(colon + 1);
        if (word.empty() || error)
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("--file is \"{}\"; allowed: PATH or PATH:NAME", word));
        if (!document.contains("files")) document["files"] = Json::array();
        if (document["files"].is_array())
            document["files"].push_back(absolute.string() + ":" + name);
    }
    return {};
}

Result<void> apply_options(const JobOptions& options, Json& document) {
    // If the document is not an object, the schema's check reports this.
    if (!document.is_object()) return {};
    for (const std::string& assignment : options.sets) {
        ROLL_TRY_VOID(set_key(document, assignment));
    }
    const auto resource = [&](const char* key, const Json& value) {
        if (!document.contains("resources")) document["resources"] = Json::object();
        if (document["resources"].is_object()) document["resources"][key] = value;
    };
    if (options.slots) resource("slots_per_node", *options.slots);
    if (options.gpus && !std::isfinite(*options.gpus)) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("--gpus is {}; allowed: a whole number, or a fraction of one GPU "
                                "such as 0.5",
                                *options.gpus));
    }
    if (options.gpus) resource("gpus_per_node", number_json(*options.gpus));
    if (options.nodes) resource("nodes", *options.nodes);
    if (options.tasks) resource("tasks_per_node", *options.tasks);
    if (!options.memory.empty()) resource("memory", options.memory);
    if (options.cpus) resource("cpus", *options.cpus);
    if (!options.time.empty()) resource("time", options.time);
    if (!options.name.empty()) document["name"] = options.name;
    if (!options.account.empty()) document["account"] = options.account;
    if (!options.into.empty()) document["into"] = number_or_text(options.into);
    if (!options.array.empty()) document["array"] = options.array;
    if (!options.cron.empty()) document["cron"] = options.cron;
    for (const auto& [key, text] :
         {std::pair("begin", &options.begin), std::pair("deadline", &options.deadline)}) {
        if (text->empty()) continue;
        ROLL_TRY(const Time when, parse_when(*text, wall_clock_now(), std::string("--") + key));
        document[key] = to_iso8601(when);
    }
    if (!options.export_env.empty()) document["export_env"] = options.export_env;
    if (options.workdir.starts_with(spec::kFilesDirectory)) {
        document["workdir"] = options.workdir;
    } else if (!options.workdir.empty()) {
        std::error_code error;
        const auto absolute = std::filesystem::absolute(options.workdir, error);
        if (error)
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("--workdir is {}, and the working directory cannot be read: {}",
                                    options.workdir, error.message()));
        document["workdir"] = absolute.lexically_normal();
    }
    if (!options.container.empty()) {
        if (!document.contains("container")) document["container"] = Json::object();
        if (document["container"].is_object()) document["container"]["image"] = options.container;
    }
    if (!options.output.empty()) document["stdout"] = options.output;
    if (!options.error.empty()) document["stderr"] = options.error;
    ROLL_TRY_VOID(set_variables(options.env, document));
    ROLL_TRY_VOID(add_files(options.files, document));
    if (options.priority) document["priority"] = *options.priority;
    if (options.hold) document["hold"] = true;
    for (const auto& [key, words] :
         {std::pair("after", &options.after), std::pair("secrets", &options.secrets)}) {
        for (const std::string& one : *words) {
            if (!document.contains(key)) document[key] = Json::array();
            if (document[key].is_array()) document[key].push_back(one);
        }
    }
    return {};
}

// Calls visit(number, line) for each line of a script's head: the comments and empty lines at its
// beginning.
template <class Visit>
static void for_each_head_line(std::string_view script, const Visit& visit) {
    for (int number = 1; !script.empty(); ++number) {
        const std::string_view line = script.substr(0, script.find('\n'));
        script.remove_prefix(std::min(line.size() + 1, script.size()));
        if (!line.empty() && line[0] != '#') break;
        visit(number, line);
    }
}

Result<JobOptions> read_directives(std::string_view script, const std::string& file) {
    std::string all;
    std::optional<Error> wrong;
    for_each_head_line(script, [&](int number, std::string_view line) {
        if (wrong || !line.starts_with(kDirective)) return;
        const std::string words(line.substr(kDirective.size()));
        // the options of this line only; they are parsed alone so that an error names the line
        JobOptions alone;
        if (auto read = parse_words(words, alone); !read) {
            wrong = std::move(read).error();
            wrong->message = fmt::format("{}:{}: {}", file, number, wrong->message);
        }
        all += words + " ";
    });
    if (wrong) return tl::unexpected(*std::move(wrong));
    JobOptions options;
    ROLL_TRY_VOID(parse_words(all, options));
    return options;
}

Result<JobOptions> options_of_environment() {
    JobOptions options;
    const char* const words = std::getenv("ROLL_SUBMIT");
    if (words == nullptr) return options;
    auto read = parse_words(words, options);
    if (read) return options;
    read.error().message = "ROLL_SUBMIT: " + read.error().message;
    return tl::unexpected(std::move(read).error());
}

}  // namespace roll::cli
