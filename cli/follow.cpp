#include "cli/follow.hpp"

#include <fmt/format.h>

#include "cli/job_view.hpp"
#include "cli/render.hpp"

namespace roll::cli {
namespace {

constexpr auto kPause = std::chrono::milliseconds(250);
constexpr auto kBetweenLines = std::chrono::seconds(3);

std::string line_of(const Json& job, bool color) {
    std::string info = progress_text(job);
    if (field_text(job, "state") == "queued") info = field_text(job, "waiting");
    if (is_over(job)) info = field_text(job, "reason");
    return fmt::format("job {} {}  {}{}{}", field_text(job, "id"), field_text(job, "name"),
                       paint_state(field_text(job, "state"), color), info.empty() ? "" : "  ",
                       info);
}

}  // namespace

Result<Json> await_job(Daemon& daemon, std::uint64_t id) {
    for (;;) {
        ROLL_TRY(Json job, daemon.show(id));
        if (is_over(job)) return job;
        pause(kPause);
    }
}

Result<Json> follow_job(const Context& context, Daemon& daemon, std::uint64_t id) {
    std::string last_state;
    std::string last_line;
    std::chrono::steady_clock::time_point printed{};
    for (;;) {
        ROLL_TRY(Json job, daemon.show(id));
        const std::string line = line_of(job, context.color);
        const std::string state = field_text(job, "state") + field_text(job, "attempt");
        const auto now = std::chrono::steady_clock::now();
        const bool due = state != last_state || is_over(job) || now - printed > kBetweenLines;
        if (context.json) {
            if (line != last_line && due) print_json_line(job);
        } else if (context.terminal) {
            if (line != last_line) print("\r\x1b[K" + line + (is_over(job) ? "\n" : ""));
        } else if (line != last_line && due) {
            print(line + "\n");
        }
        if (line != last_line && due) printed = now;
        if (due || context.terminal) last_line = line;
        last_state = state;
        if (is_over(job)) return job;
        pause(kPause);
    }
}

}  // namespace roll::cli
