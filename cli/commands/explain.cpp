#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/render.hpp"

namespace roll::cli {

Result<int> run_explain(const Context& context, const std::string& selector) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, selector));
    ROLL_TRY(const Json job, daemon.show(id));
    const std::string state = field_text(job, "state");
    const std::string why = field_text(job, state == "queued" ? "waiting" : "reason");
    if (context.json) {
        print_json({{"schema", "roll.explain/1"}, {"job", id}, {"state", state}, {"why", why}});
    } else {
        print(fmt::format("job {} {}{}{}\n", id, state, why.empty() ? "" : ": ", why));
    }
    return 0;
}

}  // namespace roll::cli
