#include "cli/commands/sweep.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/client/look.hpp"
#include "cli/commands/group.hpp"
#include "cli/commands/usage.hpp"
#include "cli/show/files_of_job.hpp"
#include "cli/show/job_view.hpp"
#include "cli/text/render.hpp"
#include "common/trials.hpp"

namespace roll::cli {
namespace {

// Returns the column titles of the parameters: the last word of each path, or whole paths if two
// parameters end with the same word.
std::vector<std::string> titles_of(const Json& parameters) {
    std::vector<std::string> titles;
    const auto last_word = [](const std::string& path) { return path.substr(path.rfind('.') + 1); };
    for (const auto& [path, value] : parameters.items()) {
        const auto same = std::ranges::count_if(parameters.items(), [&](const auto& other) {
            return last_word(other.key()) == last_word(path);
        });
        titles.push_back(same > 1 ? path : last_word(path));
    }
    return titles;
}

std::string value_text(const Json& value) {
    if (value.is_string()) return value.get<std::string>();
    return value.is_null() ? "" : dump(value);
}

TrialMetric read_trial(const std::string& output, const std::string& metric, bool maximize) {
    TrialMetric seen;
    Tail tail(std::filesystem::path(output) / "metrics.jsonl");
    for (const Json& row : metric_rows(tail)) seen.add(row, metric, maximize);
    return seen;
}

// Options of `sweep show` and `sweep best`
struct SweepView {
    std::string selector;
    std::string metric;  // empty: the metric of the sweep
    std::string mode;    // empty: the mode of the sweep
    bool csv = false;
};

tl::unexpected<Error> no_value(const Json& sweep) {
    return fail(ErrorCode::NotFound,
                fmt::format("no trial of sweep {} has a value of {}{}", field_text(sweep, "id"),
                            field_text(sweep, "metric"),
                            std::ranges::all_of(sweep["trials"], is_over) ? "" : " yet"),
                fmt::format("rollctl sweep show {}", field_text(sweep, "id")));
}

// Returns the roll.sweep/1 reply for the sweep that contains the newest selected job. Fails with
// NotFound if `view` names a metric that no trial has.
Result<Json> ask_sweep(Daemon& daemon, const SweepView& view) {
    const std::string& selector = view.selector;
    ROLL_TRY(const std::vector<std::uint64_t> ids, jobs_of(daemon, selector));
    ROLL_TRY(const Json any, daemon.show(ids.back()));
    const Json array = any.value("array", Json());
    const std::uint64_t first = array.is_object() ? array.value("job", ids.back()) : ids.back();
    ROLL_TRY(Json shown, daemon.show(first));
    if (trials_of(shown) > 0) {
        Json& sweep = shown["spec"]["sweep"];
        if (!view.metric.empty()) sweep["metric"] = view.metric;
        if (!view.mode.empty()) sweep["mode"] = view.mode;
    }
    const std::size_t trials = std::max<std::size_t>(trials_of(shown), 1);
    ROLL_TRY(const Json reply,
             daemon.jobs({.selector = fmt::format("{}-{}", first, first + trials - 1),
                          .fields = {"id", "state", "reason", "output", "array", "progress"}}));
    ROLL_TRY(Json sweep, sweep_json(shown, reply.value("jobs", Json::array()), read_trial));
    if (!view.metric.empty() && sweep["best"].is_null()) return no_value(sweep);
    return sweep;
}

}  // namespace

std::string sweep_text(const Json& sweep, const Look& look) {
    const Json& trials = sweep["trials"];
    const Json parameters = trials.empty() ? Json::object() : trials[0]["parameters"];
    std::vector<Column> columns = {{.title = "JOB", .right = true}};
    for (const std::string& title : titles_of(parameters))
        columns.push_back({.title = title, .right = true, .shrinks = 2, .least = 6});
    const std::string metric = field_text(sweep, "metric");
    columns.push_back({.title = "STATE"});
    columns.push_back({.title = "STEP", .right = true});
    columns.push_back({.title = "LAST " + metric, .right = true});
    columns.push_back({.title = "BEST " + metric, .right = true});
    columns.push_back({.title = "AT STEP", .right = true, .drops = 2});
    columns.push_back({.title = "INFO", .shrinks = 1, .least = 12, .drops = 1});
    std::vector<std::vector<std::string>> rows;
    for (const Json& trial : trials) {
        std::vector<std::string> row = {field_text(trial, "id")};
        for (const Json& value : trial["parameters"]) row.push_back(value_text(value));
        row.push_back(field_text(trial, "state"));
        row.push_back(field_text(trial, "step"));
        for (const char* key : {"last", "best"})
            row.push_back(trial[key].is_null() ? "" : number_text(trial[key]));
        row.push_back(field_text(trial, "best_step"));
        row.push_back(trial["id"] == sweep["best"] ? "best" : field_text(trial, "reason"));
        rows.push_back(std::move(row));
    }
    return fmt::format("sweep {} {}: {} trial{}, {:.0f} % done\n", field_text(sweep, "id"),
                       field_text(sweep, "name"), trials.size(), trials.size() == 1 ? "" : "s",
                       sweep["percent"].get<double>()) +
           table(columns, rows, look.color, look.width);
}

std::string sweep_csv(const Json& sweep) {
    std::vector<std::string> title = {"id", "trial"};
    const Json& trials = sweep["trials"];
    const Json parameters = trials.empty() ? Json::object() : trials[0]["parameters"];
    for (const auto& [path, value] : parameters.items()) title.push_back(path);
    constexpr std::array kKeys = {"state", "step", "last", "best", "best_step", "reason"};
    title.insert(title.end(), kKeys.begin(), kKeys.end());
    std::vector<std::vector<std::string>> rows = {title};
    for (const Json& trial : trials) {
        std::vector<std::string> row = {field_text(trial, "id"), field_text(trial, "trial")};
        for (const Json& value : trial["parameters"]) row.push_back(value_text(value));
        for (const char* key : kKeys) row.push_back(value_text(trial[key]));
        rows.push_back(std::move(row));
    }
    return csv_text(rows);
}

Result<int> run_sweep(const Context& context, const SubmitOptions& options) {
    if (options.files.empty())
        return fail(ErrorCode::InvalidArgument, "sweep needs a job file with the key `sweep`",
                    "rollctl sweep FILE, rollctl sweep show ID or rollctl sweep best ID");
    std::vector<Source> sources;
    for (const std::string& file : options.files) {
        ROLL_TRY(std::vector<Source> of_file, read_job_file(file));
        for (Source& source : of_file) {
            if (!source.document.is_object() || !source.document.contains("sweep"))
                return fail(ErrorCode::InvalidArgument,
                            fmt::format("{} has no key `sweep`", source.label),
                            "docs/sweeps.md; rollctl submit queues a single job");
            sources.push_back(std::move(source));
        }
    }
    return submit_sources(context, options, std::move(sources));
}

namespace {

Result<int> show_trials(const Context& context, const SweepView& view) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json sweep, ask_sweep(daemon, view));
    if (context.json) {
        print_json(sweep);
    } else if (view.csv) {
        print(sweep_csv(sweep));
    } else if (context.parsable) {
        for (const Json& trial : sweep["trials"]) print(field_text(trial, "id") + "\n");
    } else {
        print(sweep_text(sweep, look_of(context)));
    }
    return 0;
}

Result<int> show_best(const Context& context, const SweepView& view) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json sweep, ask_sweep(daemon, view));
    const auto best = std::ranges::find_if(
        sweep["trials"], [&](const Json& trial) { return trial["id"] == sweep["best"]; });
    if (best == sweep["trials"].end()) return no_value(sweep);
    if (context.json) {
        Json reply = *best;
        reply["schema"] = "roll.trial/1";
        reply["metric"] = sweep["metric"];
        print_json(reply);
    } else if (context.parsable) {
        print(field_text(*best, "id") + "\n");
    } else {
        std::string text =
            fmt::format("best trial: job {} with {} {} at step {}\n", field_text(*best, "id"),
                        field_text(sweep, "metric"), number_text((*best)["best"]),
                        field_text(*best, "best_step"));
        for (const auto& [path, value] : (*best)["parameters"].items())
            text += fmt::format("  {}: {}\n", path, value_text(value));
        print(text + fmt::format("  output: {}\n", field_text(*best, "output")));
    }
    return 0;
}

}  // namespace

void add_sweep_commands(CLI::App& sweep, const AddCommand& command, const Context& context) {
    const auto view = std::make_shared<SweepView>();
    CLI::App* show = command(sweep, "show", "List the trials with parameters and metrics",
                             [=, &context] { return show_trials(context, *view); });
    CLI::App* best = command(sweep, "best", "Print the trial with the best value of the metric",
                             [=, &context] { return show_best(context, *view); });
    for (CLI::App* const one : {show, best}) {
        one->add_option("JOB", view->selector, "Id or name of a trial, or `last`")->required();
        one->add_option("--metric", view->metric,
                        "Compare the trials by this metric [the sweep's metric]");
        one->add_option("--mode", view->mode, "Best value: min or max [the sweep's mode]")
            ->check(CLI::IsMember({"min", "max"}));
    }
    show->add_flag("--csv", view->csv, "Print comma-separated values");
}

}  // namespace roll::cli
