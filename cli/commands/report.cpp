// `rollctl report`: adds up the pages of a report and prints the sums in hours.
#include <array>
#include <cctype>
#include <map>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/client/look.hpp"
#include "cli/commands/usage.hpp"
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

// Returns the cells of a row: its key, the number of jobs, the GPU-hours and the slot-hours, then
// the wasted GPU-hours and slot-hours for each cause in kCauses, then the ETTR.
std::vector<std::string> cells_of(const std::string& key, const Json& row) {
    const auto hours = [](const Json& of, const char* unit) {
        return fmt::format("{:.2f}", of.value(unit, 0.0));
    };
    std::vector<std::string> cells = {key, field_text(row, "jobs"), hours(row, "gpu_hours"),
                                      hours(row, "slot_hours")};
    for (const char* cause : kCauses) {
        const Json wasted = row.value("wasted", Json::object()).value(cause, Json::object());
        cells.push_back(hours(wasted, "gpu_hours"));
        cells.push_back(hours(wasted, "slot_hours"));
    }
    const Json ettr = row.value("ettr", Json());
    cells.push_back(ettr.is_number() ? fmt::format("{:.4f}", ettr.get<double>()) : "");
    return cells;
}

std::string shown_key(const Json& row, const std::string& by) {
    const std::string key = field_text(row, by);
    return key.empty() ? "(none)" : key;
}

std::string report_csv(const Json& report, const std::string& by) {
    std::vector<std::vector<std::string>> rows = {{by, "jobs", "gpu_hours", "slot_hours"}};
    for (const char* cause : kCauses)
        for (const char* unit : {"gpu_hours", "slot_hours"})
            rows[0].push_back(fmt::format("{}_{}", cause, unit));
    rows[0].push_back("ettr");
    for (const Json& row : report["rows"]) rows.push_back(cells_of(field_text(row, by), row));
    return csv_text(rows);
}

}  // namespace

Json report_of(const std::vector<Json>& pages, const std::string& by) {
    std::map<std::string, Sum> sums;
    Sum total;
    for (const Json& page : pages) {
        for (const Json& row : page.value("rows", Json::array())) {
            sums[field_text(row, by)].add(row);
            total.add(row);
        }
    }
    Json rows = Json::array();
    for (const auto& [key, sum] : sums) {
        Json row = sum.json();
        row[by] = key;
        rows.push_back(std::move(row));
    }
    // A job that ran in several weeks has a row for each of them, so the sum over the rows would
    // count the job several times.
    Json all = total.json();
    if (by == "week") all.erase("jobs");
    return {{"schema", "roll.report/1"}, {"by", by}, {"rows", rows}, {"total", all}};
}

std::string report_text(const Json& report, std::size_t width) {
    const std::string by = field_text(report, "by");
    std::vector<std::vector<std::string>> rows;
    for (const Json& row : report["rows"]) rows.push_back(cells_of(shown_key(row, by), row));
    rows.push_back(cells_of("total", report["total"]));
    std::string title = by;
    for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    std::vector<Column> columns = {{.title = title, .shrinks = 1, .least = 10},
                                   {.title = "JOBS", .right = true, .drops = 1},
                                   {.title = "GPU-HOURS", .right = true},
                                   {.title = "SLOT-HOURS", .right = true}};
    const bool trains = report["total"].value("ettr", Json()).is_number();
    // The table shows the wasted hours in one unit only: in GPU-hours, or in slot-hours if no job
    // used GPUs.
    const bool gpus = report["total"].value("gpu_hours", 0.0) > 0;
    for (const char* name : {"FAILED", "REQUEUED", "CANCELLED"})
        columns.push_back({.title = name, .right = true, .drops = 2});
    if (trains) columns.push_back({.title = "ETTR", .right = true});
    for (auto& row : rows) {
        std::vector<std::string> kept(row.begin(), row.begin() + 4);
        for (std::size_t cause = 0; cause < kCauses.size(); ++cause)
            kept.push_back(row[4 + 2 * cause + (gpus ? 0 : 1)]);
        if (trains) kept.push_back(row.back());
        row = std::move(kept);
    }
    return table(columns, rows, false, width) +
           fmt::format("FAILED, REQUEUED and CANCELLED are wasted {}-hours\n",
                       gpus ? "GPU" : "slot") +
           (trains ? "ETTR (effective training time ratio) is the training time whose results were "
                     "kept, divided by the time since the job's first start\n"
                   : "");
}

void add_report_options(CLI::App& command, ReportOptions& options) {
    command
        .add_option("--by", options.by,
                    "Group the rows of the report by user, account, kind or week [user]")
        ->check(CLI::IsMember({"user", "account", "kind", "week"}));
    command.add_option("--since", options.since,
                       "Count only usage since this time: 7d, or 2026-11-22T08:00:00Z");
    command.add_flag("--csv", options.csv, "Print comma-separated values");
}

Result<int> run_report(const Context& context, const ReportOptions& options) {
    protocol::ReportArgs args{.by = options.by};
    if (!options.since.empty()) {
        ROLL_TRY(const Time since, parse_since(options.since, wall_clock_now()));
        args.since = since.time_since_epoch().count();
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
    if (!options.since.empty())
        report["since"] = to_iso8601(Time(std::chrono::milliseconds(args.since)));
    if (context.json)
        print_json(report);
    else
        print(options.csv ? report_csv(report, options.by)
                          : report_text(report, look_of(context).width));
    return 0;
}

}  // namespace roll::cli
