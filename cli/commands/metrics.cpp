#include <algorithm>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/show/files_of_job.hpp"
#include "cli/show/follow.hpp"
#include "cli/show/job_view.hpp"
#include "cli/text/metrics_lines.hpp"
#include "cli/text/phases.hpp"
#include "cli/text/render.hpp"

namespace roll::cli {
namespace {

constexpr auto kMetricsPoll = std::chrono::milliseconds(500);
constexpr std::size_t kPlotColumns = 160;
constexpr std::size_t kPlotRows = 18;

// Returns the rows that have the number `key`, as {step, key}.
std::vector<Json> rows_with(const std::vector<Json>& rows, const std::string& key) {
    std::vector<Json> found;
    for (const Json& row : rows)
        if (row.value(key, Json()).is_number() && row.value("step", Json()).is_number())
            found.push_back({{"step", row["step"]}, {key, row[key]}});
    return found;
}

// Returns an error message: no row has the metric `key`. The message lists the metrics that the
// rows have.
std::string missing_key_text(const std::vector<Json>& rows, const std::string& key) {
    std::set<std::string> known;
    for (const Json& row : rows)
        for (const auto& [name, value] : row.items())
            if (row.contains("step") && name != "step" && value.is_number()) known.insert(name);
    return fmt::format("the metrics do not contain {}; they contain: {}", key,
                       fmt::join(known, ", "));
}

std::string plot_text(const std::vector<Json>& rows, const std::string& key) {
    std::vector<Point> points;
    for (const Json& row : rows_with(rows, key))
        points.push_back({row["step"].get<double>(), row[key].get<double>()});
    if (points.empty()) return missing_key_text(rows, key) + "\n";
    const TerminalSize terminal = terminal_size();
    return fmt::format("{}: {:.4g} at step {}, {:.4g} at step {}\n", key, points.front().y,
                       points.front().x, points.back().y, points.back().x) +
           plot(points, std::min(kPlotColumns, terminal.columns - 1),
                std::min(kPlotRows, terminal.rows - std::min<std::size_t>(terminal.rows, 3)));
}

// Returns a table of the phases. Phases that took no time are left out.
std::string phases_text(const std::vector<Json>& rows) {
    PhaseTimes times;
    for (const Json& row : rows) add_step(times, row);
    if (times.steps == 0) return "the metrics contain no phase times of steps after step 1\n";
    const std::vector<PhaseTime> phases = longest_first(times);
    double all = 0;
    for (const PhaseTime& phase : phases) all += phase.mean;
    std::vector<std::vector<std::string>> cells;
    for (const PhaseTime& phase : phases)
        cells.push_back({phase.name, fmt::format("{:.3f}", 1e3 * phase.mean / times.steps),
                         fmt::format("{:.3f}", 1e3 * phase.longest / times.steps),
                         fmt::format("{:.1f} %", 100 * phase.mean / all)});
    return fmt::format("{} step{} of {:.3f} ms each\n", times.steps, times.steps == 1 ? "" : "s",
                       1e3 * times.wall / times.steps) +
           table({{"PHASE"}, {"MEAN MS", true}, {"LONGEST MS", true}, {"SHARE", true}}, cells,
                 false);
}

}  // namespace

void add_metrics_options(CLI::App& command, MetricsOptions& options) {
    command.add_option("JOB", options.selector, "Id or name of the job, or `last`")->required();
    command.add_flag("-f,--follow", options.follow, "Keep printing until the job ends");
    command.add_flag("--plot", options.plot, "Plot a curve in the terminal");
    command.add_option("--key", options.key,
                       "Metric to show or plot, such as lr [all metrics; with --plot: loss]");
    command.add_flag("--phases", options.phases, "Print how long each phase of a step takes");
    command.add_flag("--remote", options.remote,
                     "Read through rolld, not from this machine's disks");
}

Result<int> run_metrics(const Context& context, const MetricsOptions& options) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, options.selector));
    JobWatch watch(daemon, id);
    ROLL_TRY(Json job, watch.look(kMetricsPoll));
    JobFiles files(daemon, options.remote);
    Tail tail(files.metrics(job));
    std::vector<Json> rows = metric_rows(tail);
    ROLL_TRY_VOID(files.check());
    if (never_ran(job)) return fail_never_ran(job, "metrics");
    if (rows.empty() && !options.follow) {
        return fail(ErrorCode::NotFound,
                    fmt::format("job {} has written no metrics to {}", id, tail.file().string()),
                    fmt::format("rollctl show {}", id));
    }
    if (options.phases) {
        if (options.follow || options.plot || options.key)
            return fail(ErrorCode::InvalidArgument,
                        "--phases prints one table; it cannot be used with --follow, --plot or "
                        "--key");
        print(phases_text(rows));
        return 0;
    }
    const std::string key = options.key.value_or("loss");
    if (!options.follow && (options.key || options.plot) && rows_with(rows, key).empty())
        return fail(ErrorCode::NotFound, missing_key_text(rows, key),
                    fmt::format("rollctl metrics {} --json", id));
    if (options.plot && !options.follow && !context.json) {
        print(plot_text(rows, key));
        return 0;
    }
    if (options.key && !options.plot) rows = rows_with(rows, key);
    if (!options.follow && context.json) {
        print_json({{"schema", "roll.metrics/1"}, {"job", id}, {"metrics", rows}});
        return 0;
    }
    std::optional<InterruptNote> note;
    if (options.follow) note.emplace(std::vector{id});
    std::vector<Json> all;
    MetricsLines lines = options.key ? MetricsLines(key) : MetricsLines();
    for (;;) {
        for (const Json& row : rows) {
            if (options.plot) {
                all.push_back(row);
            } else if (context.json) {
                print_json_line(row, "roll.metrics_line/1");
            } else {
                print(lines.text(row));
            }
        }
        if (options.plot && !rows.empty()) {
            if (context.terminal) print_bytes("\x1b[H\x1b[2J");
            print(plot_text(all, key));
        }
        if (!options.follow || is_over(job)) return 0;
        ROLL_TRY(job, watch.look(kMetricsPoll));
        rows = metric_rows(tail);
        if (options.key && !options.plot) rows = rows_with(rows, key);
        ROLL_TRY_VOID(files.check());
    }
}

}  // namespace roll::cli
