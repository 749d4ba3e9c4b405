#include <charconv>

#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"

namespace roll::cli {
namespace {

Result<int> parse_priority(const std::vector<std::string>& settings) {
    constexpr std::string_view kKey = "priority=";
    int priority = 0;
    if (settings.size() == 1 && settings[0].starts_with(kKey)) {
        const char* end = settings[0].data() + settings[0].size();
        const auto read = std::from_chars(settings[0].data() + kKey.size(), end, priority);
        if (read.ec == std::errc() && read.ptr == end && settings[0].size() > kKey.size()) {
            return priority;
        }
    }
    return fail(ErrorCode::InvalidArgument,
                fmt::format("{} cannot be updated; allowed: priority=INTEGER",
                            settings.empty() ? "nothing" : settings.back()));
}

}  // namespace

Result<int> run_update(const Context& context, const std::string& selector,
                       const std::vector<std::string>& settings) {
    ROLL_TRY(const int priority, parse_priority(settings));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply,
             daemon.ask("update", {{"selector", selector}, {"priority", priority}}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    for (const Json& id : reply.value("jobs", Json::array())) {
        print(context.parsable ? id.dump() + "\n"
                               : fmt::format("job {} priority {}\n", id.dump(), priority));
    }
    return 0;
}

}  // namespace roll::cli
