#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/text/render.hpp"

namespace roll::cli {

Result<int> run_version(const Context& context) {
    Json daemon_version;
    if (auto daemon = Daemon::connect(context)) {
        if (auto reply = daemon->ask(protocol::VersionArgs{})) daemon_version = *std::move(reply);
    }
    if (context.json) {
        print_json({{"schema", "roll.rollctl_version/1"},
                    {"version", ROLL_VERSION},
                    {"daemon", daemon_version}});
        return 0;
    }
    print(fmt::format("rollctl {}\n", ROLL_VERSION));
    if (!daemon_version.is_null()) {
        print(fmt::format("rolld {} (process {}, incarnation {}, since {})\n",
                          field_text(daemon_version, "version"), field_text(daemon_version, "pid"),
                          field_text(daemon_version, "incarnation"),
                          field_text(daemon_version, "started_at")));
    }
    return 0;
}

}  // namespace roll::cli
