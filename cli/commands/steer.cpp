// The commands that change selected jobs.
#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/text/render.hpp"
#include "common/number.hpp"
#include "common/protocol/job_operations.hpp"

namespace roll::cli {
namespace {

// Prints the jobs that an operation has changed, as "jobs 3-5 CHANGED". `key` is the key of these
// jobs in the reply. Returns the exit status.
int print_changed(const Context& context, const Json& reply, const char* changed,
                  const char* key = "jobs") {
    if (context.json) {
        print_json(reply);
        return 0;
    }
    print(jobs_text(reply.value(key, Json::array()), changed, context.parsable));
    say_finished(reply);
    return 0;
}

template <class Args>
Result<int> change_jobs(const Context& context, const std::string& selector, const char* changed) {
    ROLL_TRY(const Json reply, change(context, Args{{.selector = selector}}));
    return print_changed(context, reply, changed);
}

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

Result<int> run_cancel(const Context& context, const std::string& selector,
                       const std::string& reason) {
    ROLL_TRY(const Json reply,
             change(context, protocol::CancelArgs{{.selector = selector}, reason}));
    return print_changed(context, reply, "cancelled", "cancelled");
}

Result<int> run_close(const Context& context, const std::string& selector) {
    return change_jobs<protocol::CloseArgs>(context, selector, "closed");
}

Result<int> run_hold(const Context& context, const std::string& selector, bool held) {
    return held ? change_jobs<protocol::HoldArgs>(context, selector, "held")
                : change_jobs<protocol::ReleaseArgs>(context, selector, "released");
}

Result<int> run_requeue(const Context& context, const std::string& selector) {
    return change_jobs<protocol::RequeueArgs>(context, selector, "queued again");
}

Result<int> run_update(const Context& context, const std::string& selector,
                       const std::vector<std::string>& settings) {
    ROLL_TRY(protocol::UpdateArgs args, read_settings(settings));
    args.selector = selector;
    ROLL_TRY(const Json reply, change(context, args));
    const bool single = reply.value("jobs", Json::array()).size() == 1;
    return print_changed(context, reply, single ? "is updated" : "are updated");
}

}  // namespace roll::cli
