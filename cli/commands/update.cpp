
#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/text/render.hpp"
#include "common/number.hpp"
#include "common/protocol/job_operations.hpp"

namespace roll::cli {
namespace {

tl::unexpected<Error> no_setting(const std::string& text) {
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} cannot be updated; allowed: priority=INTEGER, priority=max, "
                            "begin=now, begin=+2h, begin=2026-11-22T08:00:00Z",
                            text));
}

// Returns the arguments of the operation `update` for settings such as "priority=3".
Result<protocol::UpdateArgs> read_settings(const std::vector<std::string>& settings) {
    if (settings.empty()) return no_setting("nothing");
    protocol::UpdateArgs args;
    for (const std::string& setting : settings) {
        const std::size_t equals = std::min(setting.find('='), setting.size());
        const std::string key = setting.substr(0, equals);
        const std::string value = equals < setting.size() ? setting.substr(equals + 1) : "";
        if (key == "priority" && value == "max") {
            args.first = true;
        } else if (key == "priority") {
            const auto priority = parse_number<int>(value);
            if (!priority) return no_setting(setting);
            args.priority = *priority;
        } else if (key == "begin") {
            ROLL_TRY(const Time begin, parse_when(value, wall_clock_now(), key));
            args.begin = begin.time_since_epoch().count();
        } else {
            return no_setting(setting);
        }
    }
    return args;
}

}  // namespace

Result<int> run_update(const Context& context, const std::string& selector,
                       const std::vector<std::string>& settings) {
    ROLL_TRY(protocol::UpdateArgs args, read_settings(settings));
    args.selector = selector;
    ROLL_TRY(const Json reply, change(context, args));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    const Json jobs = reply.value("jobs", Json::array());
    print(jobs_text(jobs, jobs.size() == 1 ? "is updated" : "are updated", context.parsable));
    say_finished(reply);
    return 0;
}

}  // namespace roll::cli
