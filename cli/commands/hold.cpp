#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/text/render.hpp"
#include "common/protocol/job_operations.hpp"

namespace roll::cli {

Result<int> run_hold(const Context& context, const std::string& selector, bool held) {
    ROLL_TRY(const Json reply,
             held ? change(context, protocol::HoldArgs{{.selector = selector}})
                  : change(context, protocol::ReleaseArgs{{.selector = selector}}));
    if (context.json) {
        print_json(reply);
        return 0;
    }
    print(jobs_text(reply.value("jobs", Json::array()), held ? "held" : "released",
                    context.parsable));
    say_finished(reply);
    return 0;
}

}  // namespace roll::cli
