#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/show/follow.hpp"

namespace roll::cli {

Result<int> run_wait(const Context& context, const std::vector<std::string>& selectors,
                     bool follow) {
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    std::vector<std::uint64_t> ids;
    for (const std::string& selector : selectors) {
        ROLL_TRY(const Json reply, daemon.jobs({.selector = selector, .all = true}));
        for (const Json& job : reply.value("jobs", Json::array())) {
            ids.push_back(job.value("id", std::uint64_t{0}));
        }
    }
    if (ids.empty()) return fail(ErrorCode::NotFound, "no job matches", "rollctl jobs -a");
    Json ended = Json::array();
    ROLL_TRY(const int status, watch_jobs(context, daemon, ids, follow, ended));
    if (context.json && !follow) print_json({{"schema", "roll.jobs/1"}, {"jobs", ended}});
    return status;
}

}  // namespace roll::cli
