#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/show/job_view.hpp"

namespace roll::cli {
namespace {

constexpr int kEventsPerPage = 1000;
constexpr int kHoldBackMs = 5000;

bool follows_to_the_end(const Json& job) { return !job.is_null() && is_over(job); }

}  // namespace

Result<int> run_events(const Context& context, const EventsOptions& options) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    protocol::EventsArgs args{.limit = kEventsPerPage};
    if (!options.selector.empty()) {
        ROLL_TRY(args.id, one_job(daemon, options.selector));
    }
    const bool lines = options.lines || (context.json && options.follow);
    const bool one_value = context.json && !lines;
    Json all = Json::array();
    for (;;) {
        Json job;
        if (options.follow && args.id) {
            ROLL_TRY(job, daemon.show(*args.id));
        }
        ROLL_TRY(const Json reply, daemon.ask_patiently(args, std::chrono::seconds(60)));
        const Json events = reply.value("events", Json::array());
        for (const Json& event : events) {
            if (one_value)
                all.push_back(event);
            else if (lines)
                print_json_line(event, "roll.event_line/1");
            else
                print(event_text(event, context.terminal));
        }
        const bool more = !events.empty();
        args.since = reply.value("next", args.since);
        if (options.follow) args.wait_ms = follows_to_the_end(job) ? 0 : kHoldBackMs;
        if (more || (options.follow && !follows_to_the_end(job))) continue;
        if (one_value)
            print_json({{"schema", "roll.events/1"}, {"events", all}, {"next", args.since}});
        return 0;
    }
}

}  // namespace roll::cli
