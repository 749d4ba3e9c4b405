#include "cli/commands/usage.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/client/look.hpp"
#include "cli/text/render.hpp"
#include "common/counted.hpp"

namespace roll::cli {
namespace {

// Returns the amount in use and its limit as "3/16", or only the amount, "3", if there is no limit.
// The amount is row[key], and the limit is row["limits"][key].
std::string of_limit(const Json& row, const std::string& key) {
    const std::string limit = field_text(row.value("limits", Json::object()), key);
    const std::string now = field_text(row, key);
    return limit.empty() ? now : now + "/" + limit;
}

std::string percent_text(const Json& row) {
    return fmt::format("{:.0f} %", row.value("recent_percent", 0.0));
}

std::string limits_text_of(const Json& reply, const Look& look) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& row : reply.value("usage", Json::array()))
        rows.push_back({field_text(row, "scope") + " " + field_text(row, "name"),
                        field_text(row, "share"), percent_text(row), of_limit(row, "slots"),
                        of_limit(row, "gpus"), of_limit(row, "gpu_hours"), of_limit(row, "jobs")});
    return table({{.title = "OF", .shrinks = 1, .least = 12},
                  {.title = "SHARE", .right = true, .drops = 1},
                  {.title = "RECENT USE", .right = true, .drops = 2},
                  {.title = "SLOTS", .right = true},
                  {.title = "GPUS", .right = true},
                  {.title = "GPU-HOURS", .right = true},
                  {.title = "JOBS", .right = true}},
                 rows, look.color, look.width);
}

std::string waiting_text(const Json& reply, const Look& look) {
    std::vector<std::vector<std::string>> rows;
    for (const Json& job : reply.value("waiting", Json::array())) {
        const int tasks = job.value("tasks", 1);
        rows.push_back({field_text(job, "position"), field_text(job, "id"), field_text(job, "name"),
                        tasks > 1 ? std::to_string(tasks) : "",
                        time_field_text(job, "starts_at", look.local), field_text(job, "waiting")});
    }
    return table({{.title = "POSITION", .right = true},
                  {.title = "JOB", .right = true},
                  {.title = "NAME", .shrinks = 2, .least = 12},
                  {.title = "TASKS", .right = true, .drops = 2},
                  {.title = "STARTS BY", .drops = 1},
                  {.title = "WAITS", .shrinks = 1, .least = 24}},
                 rows, look.color, look.width);
}

std::string usage_csv(const Json& reply) {
    static const std::vector<std::string> kKeys = {"scope", "name", "share",     "recent_percent",
                                                   "slots", "gpus", "gpu_hours", "jobs"};
    static const std::vector<std::string> kLimits = {"slots", "gpus", "gpu_hours", "jobs"};
    std::vector<std::vector<std::string>> rows = {kKeys};
    for (const std::string& key : kLimits) rows[0].push_back(key + "_limit");
    for (const Json& row : reply.value("usage", Json::array())) {
        auto& cells = rows.emplace_back();
        for (const std::string& key : kKeys) cells.push_back(field_text(row, key));
        for (const std::string& key : kLimits)
            cells.push_back(field_text(row.value("limits", Json::object()), key));
    }
    return csv_text(rows);
}

}  // namespace

std::string csv_text(const std::vector<std::vector<std::string>>& rows) {
    std::string text;
    for (const auto& row : rows) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            const bool quoted = row[i].find_first_of(",\"\r\n") != std::string::npos;
            text += i > 0 ? "," : "";
            if (quoted) text += '"';
            for (const char c : row[i]) text.append(c == '"' ? 2 : 1, c);
            if (quoted) text += '"';
        }
        text += "\n";
    }
    return text;
}

void add_usage_options(CLI::App& command, UsageOptions& options) {
    command.add_option("--user", options.user, "User [the caller]");
    command.add_flag("--csv", options.csv, "Print comma-separated values");
}

Result<int> run_usage(const Context& context, const UsageOptions& options) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask(protocol::UsageArgs{.user = options.user}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    if (options.csv) {
        print(usage_csv(reply));
        return 0;
    }
    const Look look = look_of(context);
    const std::string user = field_text(reply, "user");
    const auto queued = reply.value("queued", std::size_t{0});
    print(limits_text_of(reply, look));
    print(fmt::format("\n{} running and {} of {}\n", reply.value("running", std::size_t{0}),
                      counted(queued, "queued job"), user));
    std::size_t listed = 0;
    for (const Json& job : reply.value("waiting", Json::array()))
        listed += job.value("tasks", std::size_t{0});
    if (listed > 0) print(waiting_text(reply, look));
    if (queued > listed)
        say(fmt::format("{} {} not shown; to list all: rollctl jobs --state queued --user {}",
                        counted(queued - listed, "more queued job"),
                        queued - listed == 1 ? "is" : "are", user));
    return 0;
}

}  // namespace roll::cli
