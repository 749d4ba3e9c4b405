#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/client/look.hpp"
#include "cli/commands/commands.hpp"
#include "cli/text/render.hpp"

namespace roll::cli {

Result<int> run_explain(const Context& context, const std::string& selector) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, selector));
    ROLL_TRY(const Json job, daemon.show(id));
    const std::string state = field_text(job, "state");
    const std::string why = field_text(job, state == "queued" ? "waiting" : "reason");
    if (context.json) {
        print_json({{"schema", "roll.explain/1"},
                    {"job", id},
                    {"state", state},
                    {"why", why},
                    {"starts_at", job.value("starts_at", Json())},
                    {"holds", job.value("holds", Json::array())}});
        return 0;
    }
    print(fmt::format("job {} {}{}{}\n", id, state, why.empty() ? "" : ": ", why));
    if (const std::string start = time_field_text(job, "starts_at", look_of(context).local);
        !start.empty())
        print(fmt::format("  predicted start: by {}\n", start));
    for (const Json& hold : job.value("holds", Json::array())) {
        print(fmt::format("  {}: {}\n    {}\n", field_text(hold, "rule"), field_text(hold, "why"),
                          field_text(hold, "remedy")));
        for (const Json& node : hold.value("nodes", Json::array()))
            print(fmt::format("    {}: {}\n", field_text(node, "node"), field_text(node, "why")));
    }
    return 0;
}

}  // namespace roll::cli
