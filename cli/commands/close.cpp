#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"

namespace roll::cli {

Result<int> run_close(const Context& context, const std::string& selector) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask("close", {{"selector", selector}}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    for (const Json& id : reply.value("jobs", Json::array()))
        print(context.parsable ? id.dump() + "\n" : fmt::format("job {} closed\n", id.dump()));
    return 0;
}

}  // namespace roll::cli
