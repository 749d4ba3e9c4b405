#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/render.hpp"

namespace roll::cli {

Result<int> run_cancel(const Context& context, const std::string& selector,
                       const std::string& reason) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const Json reply, daemon.ask("cancel", {{"selector", selector}, {"reason", reason}}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    for (const Json& id : reply.value("cancelled", Json::array())) {
        print(context.parsable ? id.dump() + "\n" : fmt::format("job {} cancelled\n", id.dump()));
    }
    const std::string over = field_text(reply, "over");
    if (!over.empty()) say("over already: " + over);
    return 0;
}

}  // namespace roll::cli
