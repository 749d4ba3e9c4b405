#include "cli/commands/logs.hpp"

#include <algorithm>
#include <functional>
#include <list>
#include <map>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/selector.hpp"
#include "cli/show/files_of_job.hpp"
#include "cli/show/follow.hpp"
#include "cli/show/job_view.hpp"
#include "cli/show/log_lines.hpp"
#include "cli/text/render.hpp"
#include "cli/text/since.hpp"
#include "cli/text/text_width.hpp"
#include "common/pattern.hpp"

namespace roll::cli {
namespace {

constexpr auto kLogPoll = std::chrono::milliseconds(250);
// Maximum number of jobs that are followed at once. Each log is read four times a second.
constexpr std::size_t kFollowedMax = 200;
constexpr std::uint64_t kPiece = 8u << 20;  // maximum number of bytes of a log to read at once

namespace fs = std::filesystem;

// The options that select lines, in parsed form.
struct Wanted {
    std::optional<std::uint64_t> tail;
    std::optional<Time> since;
    std::optional<Pattern> grep;
    bool takes(std::string_view line) const { return !grep || grep->occurs_in(line); }
};

Result<Wanted> wanted_of(const LogsOptions& options) {
    Wanted wanted{options.tail, std::nullopt, std::nullopt};
    if (!options.since.empty()) {
        ROLL_TRY(wanted.since, parse_since(options.since, wall_clock_now()));
    }
    if (options.grep.empty()) return wanted;
    auto pattern = Pattern::make(options.grep);
    if (!pattern) {
        // Report only the first sentence. The rest of the message repeats the regular expression.
        const std::string& why = pattern.error().message;
        return fail(
            ErrorCode::InvalidArgument,
            fmt::format("--grep {}: this is not a regular expression: {}", options.grep,
                        why.substr(0, why.find(".  "))),
            "to search for a character such as ( [ * + ? itself, put a backslash before it");
    }
    wanted.grep = *std::move(pattern);
    return wanted;
}

// Returns the offset of the first line that --since and --tail select.
std::uint64_t begin_of(const StoredFile& file, const Wanted& wanted) {
    std::uint64_t from = 0;
    if (wanted.since) {
        const auto since = offset_since(file, *wanted.since);
        if (!since)
            say(fmt::format("the lines of {} have no timestamps, so --since shows all lines",
                            file.path().string()));
        from = since.value_or(0);
    }
    if (!wanted.tail) return from;
    const auto takes = [&](std::string_view line) { return wanted.takes(line); };
    return std::max(from, offset_of_last(file, *wanted.tail, takes));
}

// Collects lines, and prints them in large pieces.
class LogOutput {
  public:
    explicit LogOutput(const Context& context) : json_(context.json), terminal_(context.terminal) {}
    ~LogOutput() { flush(); }
    LogOutput(const LogOutput&) = delete;
    LogOutput& operator=(const LogOutput&) = delete;

    void put(const std::string& mark, const fs::path& file, std::string_view line, bool newline) {
        constexpr std::size_t kAtOnce = 64u << 10;
        if (json_)
            return print_json_line({{"file", file.string()}, {"line", line}}, "roll.log_line/1");
        text_.append(mark).append(line);
        if (newline) text_ += '\n';
        if (text_.size() > kAtOnce) flush();
    }
    // In a file or a pipe, the output contains the log unchanged. On a terminal, the output must
    // not contain escape sequences that change more than the log's own lines.
    void flush() {
        const std::string text = std::exchange(text_, {});
        print_bytes(terminal_ ? printable(text, Keep::Progress) : text);
    }

  private:
    bool json_;
    bool terminal_;
    std::string text_;
};

// The log of one rank. `mark` is printed before each line: "[3] ", or "[17:3] " if several jobs are
// shown. `mark` is empty if only one rank is shown.
struct Log {
    Tail tail;
    std::string mark;
};

// Prints the new lines of a log.
void print_new(LogOutput& out, const Wanted& wanted, Log& log, bool to_the_end) {
    for (auto lines = log.tail.lines(kPiece); !lines.empty(); lines = log.tail.lines(kPiece))
        for (const std::string& line : lines)
            if (wanted.takes(line)) out.put(log.mark, log.tail.file(), line, true);
    const std::string rest = to_the_end ? log.tail.rest() : "";
    if (!rest.empty() && wanted.takes(rest))
        out.put(log.mark, log.tail.file(), rest, !log.mark.empty());
}

// Returns true if this rank of a command job ran but printed nothing. Such a rank has no log file,
// because roll-worker creates the file at the first output.
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

// Returns the text before each line: the job's id if several jobs are shown, and the rank if
// several ranks are shown.
std::string mark_of(const Json& job, bool many, int rank, const std::vector<int>& ranks) {
    if (many && ranks.size() > 1) return fmt::format("[{}:{}] ", field_text(job, "id"), rank);
    if (many) return fmt::format("[{}] ", field_text(job, "id"));
    return ranks.size() > 1 ? fmt::format("[{}] ", rank) : "";
}

// Follows the logs of one job.
class Follower {
  public:
    Follower(JobFiles& files, const LogsOptions& options, const Wanted& wanted, LogOutput& out,
             bool many)
        : files_(files),
          options_(options),
          wanted_(wanted),
          out_(out),
          many_(many) {}

    // Prints the new lines of the job's logs. `job` is a reply to `show` that was requested before
    // this call. If the job has ended in this reply, the logs are complete, so this call prints all
    // remaining lines. If `talks` is set, reports on stderr when a later attempt has started a new
    // log.
    Result<void> print_new_lines(const Json& job, bool talks) {
        ROLL_TRY(const std::vector<int> ranks, log_ranks(job, options_.ranks));
        bool told = !talks;
        missing_.reset();
        for (const int rank : ranks) {
            const auto file = files_.log(job, options_.attempt, rank);
            if (!file && !said_nothing(job, options_, rank)) missing_ = file.error();
            const auto known = logs_.find(rank);
            if (file && known != logs_.end() && known->second.tail.file() != file->path()) {
                print_new(out_, wanted_, known->second, true);
                out_.flush();
                if (!std::exchange(told, true)) say(superseded_text(job));
                logs_.erase(known);
                fresh_ = false;
            }
            if (file && !logs_.contains(rank)) add(*file, job, rank, ranks);
            if (const auto log = logs_.find(rank); log != logs_.end())
                print_new(out_, wanted_, log->second, is_over(job));
        }
        out_.flush();
        return files_.check();
    }
    // Returns the error of the missing log if no log of the job was found; else nullopt.
    std::optional<Error> missing() const { return logs_.empty() ? missing_ : std::nullopt; }

  private:
    void add(const StoredFile& file, const Json& job, int rank, const std::vector<int>& ranks) {
        // Show the log of a later attempt from the beginning of the log.
        const std::uint64_t from = fresh_ ? begin_of(file, wanted_) : 0;
        logs_.emplace(rank, Log{Tail(file, from), mark_of(job, many_, rank, ranks)});
    }

    JobFiles& files_;
    const LogsOptions& options_;
    const Wanted& wanted_;
    LogOutput& out_;
    bool many_;
    bool fresh_ = true;
    std::map<int, Log> logs_{};
    std::optional<Error> missing_{};
};

// Prints the new lines of the job's logs until the job has ended. After printing the new lines,
// calls `look` with the reply to `show`. Returns the error of the missing log if the job has ended
// without a log; else nullopt.
Result<std::optional<Error>> follow_one(const Context& context, Daemon& daemon, std::uint64_t id,
                                        const LogsOptions& options, const Wanted& wanted,
                                        const std::function<void(const Json&)>& look) {
    const InterruptNote note({id});
    LogOutput out(context);
    JobFiles files(daemon, options.remote);
    Follower follower(files, options, wanted, out, false);
    JobWatch watch(daemon, id);
    for (;;) {
        ROLL_TRY(const Json job, watch.look(kLogPoll));
        ROLL_TRY_VOID(follower.print_new_lines(job, !context.json));
        look(job);
        if (is_over(job)) return follower.missing();
    }
}

struct Followed {
    std::uint64_t id;
    Follower follower;
    Json job{};  // the job, from the reply to `show`
};

// Updates `Followed::job` of each job whose state or attempt has changed.
Result<void> look_again(Daemon& daemon, std::list<Followed>& all) {
    std::vector<std::uint64_t> ids;
    for (const Followed& one : all) ids.push_back(one.id);
    const protocol::JobsArgs args{.selector = ids_text(ids), .fields = {"id", "state", "attempt"}};
    ROLL_TRY(const Json reply, daemon.ask_patiently(args, std::chrono::seconds(60)));
    std::map<std::uint64_t, Json> news;
    for (const Json& job : reply.value("jobs", Json::array()))
        news[job.value("id", std::uint64_t{0})] = job;
    for (Followed& one : all) {
        const Json& now = news[one.id];
        const bool same = !one.job.is_null() && one.job["state"] == now.value("state", Json()) &&
                          one.job["attempt"] == now.value("attempt", Json());
        if (same) continue;
        ROLL_TRY(one.job, daemon.show(one.id));
    }
    return {};
}

// Follows the logs of several jobs until all have ended.
Result<int> follow_many(const Context& context, Daemon& daemon,
                        const std::vector<std::uint64_t>& ids, const LogsOptions& options,
                        const Wanted& wanted) {
    if (ids.size() > kFollowedMax) {
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("{} selects {} jobs; logs -f follows at most {}", options.selector,
                                ids.size(), kFollowedMax),
                    "select fewer jobs, such as 3-9");
    }
    const InterruptNote note(ids);
    LogOutput out(context);
    JobFiles files(daemon, options.remote);
    std::list<Followed> all;
    for (const std::uint64_t id : ids)
        all.push_back({id, Follower(files, options, wanted, out, true)});
    for (;; pause(kLogPoll)) {
        ROLL_TRY_VOID(look_again(daemon, all));
        for (Followed& one : all)
            ROLL_TRY_VOID(one.follower.print_new_lines(one.job, !context.json));
        std::erase_if(all, [](const Followed& one) { return is_over(one.job); });
        if (all.empty()) return 0;
    }
}

// Returns the lines of a log as JSON.
Json log_json(const StoredFile& file, const Wanted& wanted) {
    Json lines = Json::array();
    std::string rest;
    each_line(file, begin_of(file, wanted), [&](std::string_view line, bool whole) {
        if (wanted.takes(line) && whole) lines.push_back(line);
        if (wanted.takes(line) && !whole) rest = line;
        return true;
    });
    return {{"schema", "roll.logs/1"},
            {"file", file.path().string()},
            {"lines", lines},
            {"rest", rest}};
}

void print_log(LogOutput& out, const StoredFile& file, const Wanted& wanted,
               const std::string& mark) {
    each_line(file, begin_of(file, wanted), [&](std::string_view line, bool whole) {
        if (wanted.takes(line)) out.put(mark, file.path(), line, whole || !mark.empty());
        return true;
    });
}

// Prints the logs of a job, or appends them to `all` as JSON. Returns whether the job has a log.
Result<bool> print_logs(const Context& context, JobFiles& files, const Json& job,
                        const LogsOptions& options, const Wanted& wanted, bool many, Json& all) {
    ROLL_TRY(const std::vector<int> ranks, log_ranks(job, options.ranks));
    LogOutput out(context);
    bool any = false;
    for (const int rank : ranks) {
        const auto file = files.log(job, options.attempt, rank);
        ROLL_TRY_VOID(files.check());
        const bool silent = !file && said_nothing(job, options, rank);
        any |= file || silent;
        if (!file && !silent && !many) return tl::unexpected(file.error());
        if (file && !context.json) print_log(out, *file, wanted, mark_of(job, many, rank, ranks));
        if (!context.json || (!file && !silent)) continue;
        Json log = file ? log_json(*file, wanted)
                        : Json{{"schema", "roll.logs/1"},
                               {"file", nullptr},
                               {"lines", Json::array()},
                               {"rest", ""}};
        log["job"] = job.value("id", Json());
        log["rank"] = rank;
        all.push_back(std::move(log));
    }
    ROLL_TRY_VOID(files.check());
    return any;
}

}  // namespace

void add_logs_options(CLI::App& command, LogsOptions& options) {
    add_selector(command, options.selector)->required();
    command.add_flag("-f,--follow", options.follow, "Keep printing until the jobs end");
    command.add_option("--rank", options.ranks, "Ranks: 0, 0,2-3 or all [0]");
    command.add_option("--attempt", options.attempt, "Attempt [newest]")
        ->check(CLI::PositiveNumber);
    command.add_option("--tail", options.tail, "Only the last N lines of each log")
        ->check(CLI::Range(0, 1'000'000'000));
    command.add_option("--since", options.since,
                       "Only lines since this time: 2h, or 2026-11-22T08:00:00Z");
    command.add_option("--grep", options.grep, "Only lines that match this regular expression");
    command.add_flag("--remote", options.remote,
                     "Read through rolld, not from this machine's disks");
}

Result<int> follow_output(const Context& context, Daemon& daemon, std::uint64_t id) {
    std::string last;
    int status = 0;
    const auto look = [&](const Json& job) {
        // Print each state only once. The reason why a job waits may differ in each reply.
        const std::string state = field_text(job, "state") + field_text(job, "attempt");
        if (std::exchange(last, state) != state) say(job_line(job, 0, false));
        status = exit_status(job);
    };
    // Ignore a missing log: for a job that never ran, the state and the exit status say enough.
    LogsOptions options;
    options.ranks = "all";
    ROLL_TRY_VOID(follow_one(context, daemon, id, options, {}, look));
    return status;
}

Result<int> run_logs(const Context& context, const LogsOptions& options) {
    ROLL_TRY(const Wanted wanted, wanted_of(options));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const std::vector<std::uint64_t> ids, jobs_of(daemon, options.selector));
    if (options.follow && ids.size() == 1) {
        ROLL_TRY(const std::optional<Error> missing,
                 follow_one(context, daemon, ids[0], options, wanted, [](const Json&) {}));
        if (missing) return tl::unexpected(*missing);
        return 0;
    }
    if (options.follow) return follow_many(context, daemon, ids, options, wanted);
    JobFiles files(daemon, options.remote);
    Json all = Json::array();
    std::size_t without = 0;
    for (const std::uint64_t id : ids) {
        ROLL_TRY(const Json job, daemon.show(id));
        ROLL_TRY(const bool any,
                 print_logs(context, files, job, options, wanted, ids.size() > 1, all));
        without += any ? 0 : 1;
    }
    if (context.json)
        print_json(all.size() == 1 ? all[0] : Json{{"schema", "roll.logs/1"}, {"logs", all}});
    else if (without > 0)
        say(fmt::format("no log for {} of the {} jobs", without, ids.size()));
    return 0;
}

}  // namespace roll::cli
