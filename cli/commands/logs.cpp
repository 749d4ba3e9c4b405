#include <optional>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/files_of_job.hpp"
#include "cli/follow.hpp"
#include "cli/job_view.hpp"
#include "cli/render.hpp"

namespace roll::cli {
namespace {

constexpr auto kBetweenReads = std::chrono::milliseconds(250);

// Prints what is new. In JSON a line is {"schema", "file", "line"}: a log may grow for ever.
void print_new(const Context& context, Tail& tail, bool to_the_end) {
    const auto put = [&](const std::string& line, const char* newline) {
        if (!context.json) return print(line + newline);
        print_json_line(
            {{"schema", "roll.log_line/1"}, {"file", tail.file().string()}, {"line", line}});
    };
    for (const std::string& line : tail.lines()) put(line, "\n");
    const std::string rest = to_the_end ? tail.rest() : "";
    if (!rest.empty()) put(rest, "");
}

// Between the logs of two attempts.
std::string superseded_text(const Json& job) {
    const Json attempts = job.value("attempts", Json::array());
    if (attempts.size() < 2) return "-- another attempt";
    const Json& last = attempts[attempts.size() - 2];
    return "-- attempt " + field_text(attempts.back(), "attempt") + "; attempt " +
           field_text(last, "attempt") + " ended " + field_text(last, "outcome") + ": " +
           field_text(last, "reason");
}

Result<int> follow_log(const Context& context, Daemon& daemon, std::uint64_t id,
                       const LogsOptions& options) {
    std::optional<Tail> tail;
    JobWatch watch(daemon, id);
    for (;;) {
        // The job is asked first: what it wrote before it was over is then read for certain.
        ROLL_TRY(const Json job, watch.look(kBetweenReads));
        const auto file = log_file(field_text(job, "output"), options.attempt, options.rank);
        if (file && (!tail || tail->file() != *file)) {
            if (tail) print_new(context, *tail, true);
            if (tail && !context.json) say(superseded_text(job));
            tail.emplace(*file);
        }
        if (tail) print_new(context, *tail, is_over(job));
        if (is_over(job)) return tail ? Result<int>(0) : tl::unexpected(file.error());
    }
}

}  // namespace

Result<int> run_logs(const Context& context, const LogsOptions& options) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, options.selector));
    if (options.follow) return follow_log(context, daemon, id, options);
    ROLL_TRY(const Json job, daemon.show(id));
    ROLL_TRY(const auto file, log_file(field_text(job, "output"), options.attempt, options.rank));
    Tail tail(file);
    if (context.json) {
        print_json({{"schema", "roll.logs/1"},
                    {"file", file.string()},
                    {"lines", tail.lines()},
                    {"rest", tail.rest()}});
    } else {
        print_new(context, tail, true);
    }
    return 0;
}

}  // namespace roll::cli
