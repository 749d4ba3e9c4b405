#include <algorithm>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/follow.hpp"
#include "cli/job_view.hpp"
#include "cli/render.hpp"

namespace roll::cli {
namespace {

Result<int> wait_for(const Context& context, const std::vector<std::string>& selectors) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    std::vector<std::uint64_t> ids;
    for (const std::string& selector : selectors) {
        ROLL_TRY(const Json reply, daemon.jobs({{"selector", selector}, {"all", true}}));
        for (const Json& job : reply.value("jobs", Json::array())) {
            ids.push_back(job.value("id", std::uint64_t{0}));
        }
    }
    if (ids.empty()) return fail(ErrorCode::NotFound, "there is no such job", "rollctl jobs -a");
    int status = 0;
    Json jobs = Json::array();
    for (const std::uint64_t id : ids) {
        ROLL_TRY(const Json job, await_job(context, daemon, id));
        status = std::max(status, exit_status(job));
        jobs.push_back(job);
    }
    if (context.json) print_json({{"schema", "roll.jobs/1"}, {"jobs", jobs}});
    return status;
}

}  // namespace

Result<int> run_wait(const Context& context, const std::vector<std::string>& selectors) {
    auto status = wait_for(context, selectors);
    if (status) return status;
    print_error(context, status.error());
    return kOwnTrouble;
}

}  // namespace roll::cli
