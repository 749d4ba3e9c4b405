#include "cli/show/follow.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/show/files_of_job.hpp"
#include "cli/show/job_view.hpp"
#include "cli/text/render.hpp"
#include "cli/text/text_width.hpp"

namespace roll::cli {
namespace {

constexpr auto kFollowPatience = std::chrono::seconds(60);
constexpr auto kFollowPoll = std::chrono::seconds(5);
// Interval between two polls of the progress. Polling is needed, because progress creates no
// events.
constexpr auto kProgress = std::chrono::milliseconds(500);
constexpr auto kBetweenLines = std::chrono::seconds(3);

// Returns the terminal's width in columns; 0 if stdout is not a terminal.
std::size_t width_of(const Context& context) {
    return context.terminal ? terminal_size().columns : 0;
}

// Returns the first and the last value of a metric, as "5.56 at step 1 to 2.31 at step 300"; empty
// if there is no value.
std::string span_text(const std::vector<Json>& rows, const std::string& key) {
    const Json* first = nullptr;
    const Json* last = nullptr;
    for (const Json& row : rows) {
        if (!row.value(key, Json()).is_number()) continue;
        if (first == nullptr) first = &row;
        last = &row;
    }
    const auto text = [&](const Json& row) {
        return number_text(row[key]) + " at step " + field_text(row, "step");
    };
    if (last == nullptr) return "";
    return first == last ? text(*last) : text(*first) + " to " + text(*last);
}

// Returns a text with the path of the job's export; empty if the job has no export. Until the
// export job has succeeded, the text also names that job and its state.
std::string export_text(Daemon& daemon, const Json& job) {
    if (const std::string made = field_text(job, "exported"); !made.empty()) return made;
    const Json follows = job.value("export_job", Json());
    if (!follows.is_number_unsigned()) return "";
    const std::string id = follows.dump();
    const auto exporting = daemon.show(follows.get<std::uint64_t>());
    if (!exporting) return "by job " + id;
    const Json convert = exporting->value(Json::json_pointer("/spec/convert"), Json());
    const std::string where = field_text(convert, "target");
    const std::string state = field_text(*exporting, "state");
    if (state == "done") return where;
    if (is_over(*exporting))
        return fmt::format("none, because job {} (export to {}) {}{}; next: rollctl show {}", id,
                           where, state == "cancelled" ? "was " : "", state, id);
    return fmt::format("{} (job {} has not finished this export; to wait for it: rollctl wait {})",
                       where, id, id);
}

// Prints the results of a finished job: its losses and its export. For a failed job, also prints
// the command that shows its logs.
void print_result(Daemon& daemon, const Json& job) {
    JobFiles files(daemon, false);
    Tail tail(files.metrics(job));
    const std::string kind = field_text(job, "kind");
    const bool trains = kind == "train" || kind == "resume";
    const std::vector<Json> rows = trains ? metric_rows(tail) : std::vector<Json>();
    const auto put = [](const char* what, const std::string& text) {
        if (!text.empty()) print(fmt::format("  {:<18}{}\n", what, text));
    };
    for (const char* key : {"loss", "valid_loss", "export_valid_loss"})
        put(key, span_text(rows, key));
    put("export", export_text(daemon, job));
    if (field_text(job, "state") == "failed")
        put("logs", fmt::format("rollctl logs {}", job.value("id", std::uint64_t{0})));
}

// The text that the signal handler prints. This variable is set before the handler is installed.
std::string on_interrupt_text;  // NOLINT
void tell_and_end(int signal) {
    static_cast<void>(!::write(STDERR_FILENO, on_interrupt_text.data(), on_interrupt_text.size()));
    // SA_RESETHAND has restored the default action, which ends the program after this handler.
    ::raise(signal);
}

// Returns the worse of two exit statuses, which is the higher one. If one of two nonzero statuses
// is kOwnTrouble, returns the other status, because it says how a job failed.
int worse(int one, int other) {
    if (one == kOwnTrouble && other != 0) return other;
    if (other == kOwnTrouble && one != 0) return one;
    return std::max(one, other);
}

}  // namespace

InterruptNote::InterruptNote(const std::vector<std::uint64_t>& ids) {
    const std::string which = ids_text(Json(ids));
    const bool one = ids.size() == 1;
    on_interrupt_text = fmt::format(
        "\njob{} {} continue{}; only this command ends\n  next: rollctl {} {}, rollctl "
        "wait {}, or rollctl cancel {}\n",
        one ? "" : "s", which, one ? "s" : "", one ? "logs -f" : "jobs", which, which, which);
    struct sigaction note {};
    note.sa_handler = tell_and_end;
    note.sa_flags = SA_RESETHAND;
    ::sigaction(SIGINT, &note, &before_);
    if (before_.sa_handler == SIG_IGN) ::sigaction(SIGINT, &before_, nullptr);
}

InterruptNote::~InterruptNote() { ::sigaction(SIGINT, &before_, nullptr); }

Result<Json> JobWatch::look(std::chrono::milliseconds at_most) {
    if (looked_) {
        const protocol::EventsArgs args{
            .since = seen_, .id = id_, .wait_ms = static_cast<int>(at_most.count())};
        ROLL_TRY(const Json events, daemon_.ask_patiently(args, kFollowPatience));
        seen_ = events.value("next", seen_);
    }
    looked_ = true;
    return daemon_.show(id_);
}

Result<Json> await_job(const Context& context, Daemon& daemon, std::uint64_t id) {
    JobWatch watch(daemon, id);
    for (;;) {
        ROLL_TRY(Json job, watch.look(kFollowPoll));
        if (!is_over(job)) continue;
        const std::string state = field_text(job, "state");
        if (!context.json && state != "done")
            say("job " + field_text(job, "id") + " " + state + ": " + field_text(job, "reason"));
        return job;
    }
}

Result<Json> follow_job(const Context& context, Daemon& daemon, std::uint64_t id) {
    std::string last_state;
    std::string last_line;
    std::chrono::steady_clock::time_point printed{};
    JobWatch watch(daemon, id);
    for (;;) {
        ROLL_TRY(Json job, watch.look(kProgress));
        const std::string line = job_line(job, width_of(context), context.color);
        const std::string state = field_text(job, "state") + field_text(job, "attempt");
        const auto now = std::chrono::steady_clock::now();
        const bool due = state != last_state || is_over(job) || now - printed > kBetweenLines;
        if (context.json) {
            if (line != last_line && due) print_json_line(job, "roll.job_line/1");
        } else if (context.terminal) {
            if (line != last_line)
                print_bytes("\r\x1b[K" + printable(line) + (is_over(job) ? "\n" : ""));
        } else if (line != last_line && due) {
            print(line + "\n");
        }
        if (line != last_line && due) printed = now;
        if (due || context.terminal) last_line = line;
        last_state = state;
        if (is_over(job)) return job;
    }
}

Result<int> watch_jobs(const Context& context, Daemon& daemon,
                       const std::vector<std::uint64_t>& ids, bool follow, Json& ended) {
    const InterruptNote note(ids);
    int status = 0;
    for (const std::uint64_t id : ids) {
        ROLL_TRY(const Json job,
                 follow ? follow_job(context, daemon, id) : await_job(context, daemon, id));
        if (follow && !context.json) print_result(daemon, job);
        status = worse(status, exit_status(job));
        ended.push_back(job);
    }
    return status;
}

}  // namespace roll::cli
