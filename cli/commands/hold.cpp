#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"

namespace roll::cli {

Result<int> run_hold(const Context& context, const std::string& selector, bool held) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask(held ? "hold" : "release", {{"selector", selector}}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    for (const Json& id : reply.value("jobs", Json::array())) {
        print(context.parsable ? id.dump() + "\n"
                               : fmt::format("job {} {}\n", id.dump(), held ? "held" : "released"));
    }
    return 0;
}

}  // namespace roll::cli
