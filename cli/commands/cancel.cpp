#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/text/render.hpp"
#include "common/protocol/job_operations.hpp"

namespace roll::cli {

Result<int> run_cancel(const Context& context, const std::string& selector,
                       const std::string& reason) {
    ROLL_TRY(const Json reply,
             change(context, protocol::CancelArgs{{.selector = selector}, reason}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    print(jobs_text(reply.value("cancelled", Json::array()), "cancelled", context.parsable));
    say_finished(reply);
    return 0;
}

}  // namespace roll::cli
