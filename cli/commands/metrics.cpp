#include <algorithm>
#include <array>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/files_of_job.hpp"
#include "cli/follow.hpp"
#include "cli/job_view.hpp"
#include "cli/phases.hpp"
#include "cli/render.hpp"

namespace roll::cli {
namespace {

constexpr auto kMetricsPoll = std::chrono::milliseconds(500);
constexpr std::size_t kPlotColumns = 160;
constexpr std::size_t kPlotRows = 18;
constexpr int kCellWidth = 14;
constexpr std::array kNotForPeople = {
    "tokens",        "data_wait_seconds", "eta_seconds",
    "memory_bytes",  "memory_peak_bytes", "peak_tflops",
    "clipped_share", "valid_perplexity",  "tokens_per_second_per_rank",
    "wall_s",        "reduced_early"};

// Returns a row of metrics as "step 100  loss 1.23  lr 0.003". Returns an empty text for the first
// row of an attempt, because that row has no step.
std::string row_text(const Json& row) {
    if (!row.contains("step")) return "";
    static const std::vector<std::string> kFirst = {"step", "loss", "lr", "grad_norm"};
    std::string text;
    const auto put = [&](const std::string& key, const Json& value) {
        if (!value.is_number()) return;
        const std::string cell = fmt::format("{} {}", key, number_text(value));
        text += fmt::format("{:<{}}  ", cell, kCellWidth);
    };
    for (const std::string& key : kFirst) put(key, row.value(key, Json()));
    for (const auto& [key, value] : row.items()) {
        const bool known = std::find(kFirst.begin(), kFirst.end(), key) != kFirst.end();
        if (!known &&
            std::find(kNotForPeople.begin(), kNotForPeople.end(), key) == kNotForPeople.end()) {
            put(key, value);
        }
    }
    if (row.value("text", Json()).is_string()) {
        text += "sample: " + field_text(row, "prompt") + field_text(row, "text");
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text + "\n";
}

std::string plot_text(const std::vector<Json>& rows, const std::string& key) {
    std::vector<Point> points;
    for (const Json& row : rows) {
        const Json value = row.value(key, Json());
        const Json step = row.value("step", Json());
        if (value.is_number() && step.is_number())
            points.push_back({step.get<double>(), value.get<double>()});
    }
    if (points.empty()) return fmt::format("no {} in the metrics yet\n", key);
    const TerminalSize terminal = terminal_size();
    return fmt::format("{} from step {} to {}: {:.4g} to {:.4g}\n", key, points.front().x,
                       points.back().x, points.front().y, points.back().y) +
           plot(points, std::min(kPlotColumns, terminal.columns - 1),
                std::min(kPlotRows, terminal.rows - std::min<std::size_t>(terminal.rows, 3)));
}

// Returns a table of the phases. Phases that took no time are left out.
std::string phases_text(const std::vector<Json>& rows) {
    PhaseTimes times;
    for (const Json& row : rows) add_step(times, row);
    if (times.steps == 0) return "no phases in the metrics yet; the first step does not count\n";
    const std::vector<PhaseTime> phases = longest_first(times);
    double all = 0;
    for (const PhaseTime& phase : phases) all += phase.mean;
    std::vector<std::vector<std::string>> cells;
    for (const PhaseTime& phase : phases)
        cells.push_back({phase.name, fmt::format("{:.3f}", 1e3 * phase.mean / times.steps),
                         fmt::format("{:.3f}", 1e3 * phase.longest / times.steps),
                         fmt::format("{:.1f} %", 100 * phase.mean / all)});
    return fmt::format("{} steps of {:.3f} ms each\n", times.steps,
                       1e3 * times.wall / times.steps) +
           table({{"PHASE"}, {"MEAN MS", true}, {"LONGEST MS", true}, {"SHARE", true}}, cells,
                 false);
}

}  // namespace

void add_metrics_options(CLI::App& command, MetricsOptions& options) {
    command.add_option("JOB", options.selector, "Id (7), `last` or a name")->required();
    command.add_flag("-f,--follow", options.follow, "Keep printing until the job ends");
    command.add_flag("--plot", options.plot, "Plot a curve in the terminal");
    command.add_option("--key", options.key, "Metric to plot [loss]");
    command.add_flag("--phases", options.phases, "Print where the steps' time went");
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
    if (rows.empty() && !options.follow) {
        return fail(
            ErrorCode::NotFound,
            fmt::format("job {} has written no metrics to {} yet", id, tail.file().string()),
            fmt::format("rollctl show {}", id));
    }
    if (options.phases) {
        if (options.follow || options.plot)
            return fail(ErrorCode::InvalidArgument,
                        "--phases prints one table; it does not go with --follow or --plot");
        print(phases_text(rows));
        return 0;
    }
    if (options.plot && !options.follow && !context.json) {
        print(plot_text(rows, options.key));
        return 0;
    }
    if (!options.follow && context.json) {
        print_json({{"schema", "roll.metrics/1"}, {"job", id}, {"metrics", rows}});
        return 0;
    }
    std::optional<InterruptNote> note;
    if (options.follow) note.emplace(std::vector{id});
    std::vector<Json> all;
    for (;;) {
        for (const Json& row : rows) {
            if (options.plot) {
                all.push_back(row);
            } else if (context.json) {
                print_json_line(row, "roll.metrics_line/1");
            } else {
                print(row_text(row));
            }
        }
        if (options.plot && !rows.empty()) {
            print((context.terminal ? "\x1b[H\x1b[2J" : "") + plot_text(all, options.key));
        }
        if (!options.follow || is_over(job)) return 0;
        ROLL_TRY(job, watch.look(kMetricsPoll));
        rows = metric_rows(tail);
        ROLL_TRY_VOID(files.check());
    }
}

}  // namespace roll::cli
