#include "cli/follow.hpp"

#include <algorithm>

#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/job_view.hpp"
#include "cli/render.hpp"

namespace roll::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(60);
constexpr auto kHoldBack = std::chrono::seconds(5);
constexpr auto kProgress = std::chrono::milliseconds(500);  // progress is no event
constexpr auto kBetweenLines = std::chrono::seconds(3);

// Of the terminal that the line is on; 0: it is none.
std::size_t width_of(const Context& context) {
    constexpr std::size_t kUsual = 80;
    winsize size{};
    if (!context.terminal) return 0;
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

Result<Json> JobWatch::look(std::chrono::milliseconds at_most) {
    if (looked_) {
        const Json args = {{"id", id_}, {"since", seen_}, {"wait_ms", at_most.count()}};
        ROLL_TRY(const Json events, daemon_.ask_patiently("events", args, kPatience));
        seen_ = events.value("next", seen_);
    }
    looked_ = true;
    return daemon_.show(id_);
}

Result<Json> await_job(const Context& context, Daemon& daemon, std::uint64_t id) {
    JobWatch watch(daemon, id);
    for (;;) {
        ROLL_TRY(Json job, watch.look(kHoldBack));
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
            if (line != last_line) print("\r\x1b[K" + line + (is_over(job) ? "\n" : ""));
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
    int status = 0;
    for (const std::uint64_t id : ids) {
        ROLL_TRY(const Json job,
                 follow ? follow_job(context, daemon, id) : await_job(context, daemon, id));
        status = std::max(status, exit_status(job));
        ended.push_back(job);
    }
    return status;
}

}  // namespace roll::cli
