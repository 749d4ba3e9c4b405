#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/files_of_job.hpp"
#include "cli/follow.hpp"
#include "cli/job_view.hpp"
#include "cli/render.hpp"

namespace roll::cli {
namespace {

constexpr auto kLogPoll = std::chrono::milliseconds(250);

// The log of one rank. `mark` stands before each printed line: "[3] ", or empty if only one rank
// is shown.
struct Log {
    Tail tail;
    std::string mark;
};

// Prints the new lines of a log. As JSON, prints an object {"schema", "file", "line"} for each
// line.
void print_new(const Context& context, Log& log, bool to_the_end) {
    const auto put = [&](const std::string& line, const char* newline) {
        if (!context.json) return print(log.mark + line + newline);
        print_json_line({{"file", log.tail.file().string()}, {"line", line}}, "roll.log_line/1");
    };
    for (const std::string& line : log.tail.lines()) put(line, "\n");
    const std::string rest = to_the_end ? log.tail.rest() : "";
    if (!rest.empty()) put(rest, log.mark.empty() ? "" : "\n");
}

// Returns whether this rank of a command job ran but printed nothing. Such a rank has no log,
// because the first output creates it.
bool said_nothing(const Json& job, const LogsOptions& options, int rank) {
    const Json attempts = job.value("attempts", Json::array());
    const bool ran = std::ranges::any_of(attempts, [&](const Json& attempt) {
        return !options.attempt || attempt.value("attempt", 0) == *options.attempt;
    });
    const int nodes = job.value("resources", Json::object()).value("nodes", 1);
    const int ranks = nodes * tasks_per_node(job.value("spec", Json()));
    return field_text(job, "kind") == "command" && ran && rank < ranks;
}

// Returns the line that is printed between the logs of two attempts.
std::string superseded_text(const Json& job) {
    const Json attempts = job.value("attempts", Json::array());
    if (attempts.size() < 2) return "-- another attempt";
    const Json& last = attempts[attempts.size() - 2];
    return "-- attempt " + field_text(attempts.back(), "attempt") + "; attempt " +
           field_text(last, "attempt") + " ended " + field_text(last, "outcome") + ": " +
           field_text(last, "reason");
}

std::string mark_of(int rank, const std::vector<int>& ranks) {
    return ranks.size() > 1 ? fmt::format("[{}] ", rank) : "";
}

Result<int> follow_logs(const Context& context, Daemon& daemon, std::uint64_t id,
                        const LogsOptions& options) {
    const InterruptNote note({id});
    std::map<int, Log> logs;
    JobWatch watch(daemon, id);
    for (;;) {
        // Request the job's state before reading its logs. If the job has ended, the logs are
        // then complete.
        ROLL_TRY(const Json job, watch.look(kLogPoll));
        ROLL_TRY(const std::vector<int> ranks, log_ranks(job, options.ranks));
        std::optional<Error> missing;
        bool told = false;
        for (const int rank : ranks) {
            const auto file = log_file(field_text(job, "output"), options.attempt, rank);
            if (!file && !said_nothing(job, options, rank)) missing = file.error();
            const auto known = logs.find(rank);
            if (file && known != logs.end() && known->second.tail.file() != *file) {
                print_new(context, known->second, true);
                if (!context.json && !std::exchange(told, true)) say(superseded_text(job));
                logs.erase(known);
            }
            if (file) logs.try_emplace(rank, Log{Tail(*file), mark_of(rank, ranks)});
            if (const auto log = logs.find(rank); log != logs.end())
                print_new(context, log->second, is_over(job));
        }
        if (!is_over(job)) continue;
        return logs.empty() && missing ? tl::unexpected(*missing) : Result<int>(0);
    }
}

}  // namespace

Result<int> run_logs(const Context& context, const LogsOptions& options) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, options.selector));
    if (options.follow) return follow_logs(context, daemon, id, options);
    ROLL_TRY(const Json job, daemon.show(id));
    ROLL_TRY(const std::vector<int> ranks, log_ranks(job, options.ranks));
    Json all = Json::array();
    for (const int rank : ranks) {
        const auto file = log_file(field_text(job, "output"), options.attempt, rank);
        if (!file && !said_nothing(job, options, rank)) return tl::unexpected(file.error());
        if (!file) {
            all.push_back({{"schema", "roll.logs/1"},
                           {"file", nullptr},
                           {"lines", Json::array()},
                           {"rest", ""}});
            continue;
        }
        Log log{Tail(*file), mark_of(rank, ranks)};
        if (context.json)
            all.push_back({{"schema", "roll.logs/1"},
                           {"file", file->string()},
                           {"lines", log.tail.lines()},
                           {"rest", log.tail.rest()}});
        else
            print_new(context, log, true);
    }
    if (context.json)
        print_json(all.size() == 1 ? all[0] : Json{{"schema", "roll.logs/1"}, {"logs", all}});
    return 0;
}

}  // namespace roll::cli
