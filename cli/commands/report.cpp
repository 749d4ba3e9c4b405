// `rollctl report`: adds up the pages of a report and prints the sums in hours.
#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/client/daemon.hpp"
#include "cli/client/look.hpp"
#include "cli/commands/usage.hpp"
#include "cli/slurm/values.hpp"
#include "cli/text/render.hpp"
#include "cli/text/since.hpp"

namespace roll::cli {
namespace {

constexpr std::array kCauses = {"failed", "requeued", "cancelled"};
// Keys of a report row whose value is a time in the form {slot_ms, gpu_ms}
constexpr std::array kParts = {"held", "failed", "requeued", "cancelled", "elapsed", "trained"};

struct Sum {
    std::int64_t jobs = 0;
    // Slot time and GPU time in milliseconds, for each key in kParts
    std::map<std::string, std::int64_t> slot_ms{}, gpu_ms{};

    void add(const Json& row) {
        jobs += row.value("jobs", std::int64_t{0});
        for (const char* part : kParts) {
            const Json held = row.value(part, Json::object());
            slot_ms[part] += held.value("slot_ms", std::int64_t{0});
            gpu_ms[part] += held.value("gpu_ms", std::int64_t{0});
        }
    }
    static double hours(const std::map<std::string, std::int64_t>& parts, const char* part) {
        constexpr double kHour = 3'600'000;
        const auto found = parts.find(part);
        return found == parts.end() ? 0 : static_cast<double>(found->second) / kHour;
    }
    // Returns the effective training time ratio (docs/reference.md): the time in which the jobs
    // have trained, divided by the time from a job's first start to its end. Both times are sums
    // over the training jobs. Null if no training job ran.
    Json ettr() const {
        const auto& time = hours(gpu_ms, "elapsed") > 0 ? gpu_ms : slot_ms;
        const double elapsed = hours(time, "elapsed");
        return elapsed > 0 ? Json(hours(time, "trained") / elapsed) : Json();
    }
    Json json() const {
        Json wasted = Json::object();
        for (const char* cause : kCauses)
            wasted[cause] = {{"gpu_hours", hours(gpu_ms, cause)},
                             {"slot_hours", hours(slot_ms, cause)}};
        return {{"jobs", jobs},
                {"gpu_hours", hours(gpu_ms, "held")},
                {"slot_hours", hours(slot_ms, "held")},
                {"wasted", std::move(wasted)},
                {"ettr", ettr()}};
    }
};

using Words = std::vector<std::string>;

// Returns the cells of a row: the row's keys, the number of jobs, the GPU-hours, the slot-hours,
// the wasted GPU-hours and slot-hours for each cause in kCauses, and the ETTR.
Words cells_of(Words cells, const Json& row) {
    const auto hours = [](const Json& of, const char* unit) {
        return fmt::format("{:.2f}", of.value(unit, 0.0));
    };
    cells.insert(cells.end(),
                 {field_text(row, "jobs"), hours(row, "gpu_hours"), hours(row, "slot_hours")});
    for (const char* cause : kCauses) {
        const Json wasted = row.value("wasted", Json::object()).value(cause, Json::object());
        cells.push_back(hours(wasted, "gpu_hours"));
        cells.push_back(hours(wasted, "slot_hours"));
    }
    const Json ettr = row.value("ettr", Json());
    cells.push_back(ettr.is_number() ? fmt::format("{:.4f}", ettr.get<double>()) : "");
    return cells;
}

// Returns the groups of a report, such as {"user", "week"}.
Words groups_of(const Json& report) { return split_at(field_text(report, "by"), ','); }

// Returns the row's value of each group. An empty value becomes `none`.
Words keys_of(const Json& row, const Words& groups, const char* none) {
    Words keys;
    for (const std::string& group : groups) {
        const std::string key = field_text(row, group);
        keys.push_back(key.empty() ? none : key);
    }
    return keys;
}

std::string report_csv(const Json& report) {
    const Words groups = groups_of(report);
    Words titles = groups;
    titles.insert(titles.end(), {"jobs", "gpu_hours", "slot_hours"});
    for (const char* cause : kCauses)
        for (const char* unit : {"gpu_hours", "slot_hours"})
            titles.push_back(fmt::format("{}_{}", cause, unit));
    titles.emplace_back("ettr");
    std::vector<Words> rows = {titles};
    for (const Json& row : report["rows"]) rows.push_back(cells_of(keys_of(row, groups, ""), row));
    return csv_text(rows);
}

}  // namespace

Json report_of(const std::vector<Json>& pages, const std::vector<std::string>& by) {
    std::map<Words, Sum> sums;
    Sum total;
    for (const Json& page : pages) {
        for (const Json& row : page.value("rows", Json::array())) {
            sums[keys_of(row, by, "")].add(row);
            total.add(row);
        }
    }
    Json rows = Json::array();
    for (const auto& [keys, sum] : sums) {
        Json row = sum.json();
        for (std::size_t i = 0; i < by.size(); ++i) row[by[i]] = keys[i];
        rows.push_back(std::move(row));
    }
    // A job that ran in several weeks has one row for each week, so the sum over the rows would
    // count the job several times.
    Json all = total.json();
    if (std::ranges::find(by, "week") != by.end()) all.erase("jobs");
    return {{"schema", "roll.report/1"},
            {"by", fmt::format("{}", fmt::join(by, ","))},
            {"rows", rows},
            {"total", all}};
}

std::string report_text(const Json& report, std::size_t width) {
    const Words groups = groups_of(report);
    std::vector<Words> rows;
    std::vector<Column> columns;
    for (const std::string& group : groups) {
        columns.push_back({.title = group, .shrinks = 1, .least = 10});
        for (char& c : columns.back().title)
            c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    for (const Json& row : report["rows"])
        rows.push_back(cells_of(keys_of(row, groups, "(none)"), row));
    Words last(groups.size());
    last.front() = "total";
    rows.push_back(cells_of(std::move(last), report["total"]));
    columns.push_back({.title = "JOBS", .right = true, .drops = 1});
    columns.push_back({.title = "GPU-HOURS", .right = true});
    columns.push_back({.title = "SLOT-HOURS", .right = true});
    const std::size_t first = groups.size() + 3;
    const bool trains = report["total"].value("ettr", Json()).is_number();
    // The table shows the wasted hours in one unit only: in GPU-hours, or in slot-hours if no job
    // used GPUs.
    const bool gpus = report["total"].value("gpu_hours", 0.0) > 0;
    for (const char* name : {"FAILED", "REQUEUED", "CANCELLED"})
        columns.push_back({.title = name, .right = true, .drops = 2});
    if (trains) columns.push_back({.title = "ETTR", .right = true});
    for (auto& row : rows) {
        Words kept(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(first));
        for (std::size_t cause = 0; cause < kCauses.size(); ++cause)
            kept.push_back(row[first + 2 * cause + (gpus ? 0 : 1)]);
        if (trains) kept.push_back(row.back());
        row = std::move(kept);
    }
    return table(columns, rows, false, width) +
           fmt::format("the columns FAILED, REQUEUED and CANCELLED are wasted {}-hours\n",
                       gpus ? "GPU" : "slot") +
           (trains ? "ETTR (effective training time ratio) is the training time whose results were "
                     "kept, divided by the time since the job's first start\n"
                   : "");
}

void add_report_options(CLI::App& command, ReportOptions& options) {
    command
        .add_option("--by", options.by,
                    "Group the rows by user, account, kind or week, or by several of them, such as "
                    "user,week [user]")
        ->delimiter(',')
        ->check(CLI::IsMember({"user", "account", "kind", "week"}));
    command.add_option("--since", options.since,
                       "Count only usage since this time: 7d, or 2026-11-22T08:00:00Z");
    command.add_option("--until", options.until,
                       "Count only usage before this time: 7d, or 2026-11-22T08:00:00Z");
    command.add_flag("--csv", options.csv, "Print comma-separated values");
}

Result<int> run_report(const Context& context, const ReportOptions& options) {
    protocol::ReportArgs args{.by = fmt::format("{}", fmt::join(options.by, ","))};
    const Time now = wall_clock_now();
    if (!options.since.empty()) {
        ROLL_TRY(const Time since, parse_since(options.since, now));
        args.since = since.time_since_epoch().count();
    }
    if (!options.until.empty()) {
        ROLL_TRY(const Time until, parse_since(options.until, now, "--until"));
        args.until = until.time_since_epoch().count();
        if (*args.until <= args.since.value_or(0))
            return fail(ErrorCode::InvalidArgument,
                        fmt::format("--until {} is not after --since {}; the report would be empty",
                                    options.until, options.since));
    }
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    std::vector<Json> pages;
    for (Json next = 0; !next.is_null();) {
        args.from = next.get<std::uint64_t>();
        ROLL_TRY(Json page, daemon.ask(args));
        next = page.value("next", Json());
        pages.push_back(std::move(page));
    }
    Json report = report_of(pages, options.by);
    if (args.since) report["since"] = to_iso8601(Time(std::chrono::milliseconds(*args.since)));
    if (args.until) report["until"] = to_iso8601(Time(std::chrono::milliseconds(*args.until)));
    if (context.json)
        print_json(report);
    else
        print(options.csv ? report_csv(report) : report_text(report, look_of(context).width));
    return 0;
}

}  // namespace roll::cli
