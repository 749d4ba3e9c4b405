#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/text/render.hpp"
#include "common/protocol/job_operations.hpp"

namespace roll::cli {

Result<int> run_requeue(const Context& context, const std::string& selector) {
    ROLL_TRY(const Json reply, change(context, protocol::RequeueArgs{{.selector = selector}}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    print(jobs_text(reply.value("jobs", Json::array()), "queued again", context.parsable));
    say_finished(reply);
    return 0;
}

}  // namespace roll::cli
