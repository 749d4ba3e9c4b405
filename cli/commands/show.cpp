#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/job_view.hpp"
#include "common/time.hpp"

namespace roll::cli {

Result<int> run_show(const Context& context, const std::string& selector) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, selector));
    ROLL_TRY(const Json reply, daemon.ask(protocol::ShowArgs{.id = id}));
    if (context.json) {
        print_json(reply);
    } else if (context.parsable) {
        print(fmt::format("{}\n", id));
    } else {
        print(job_text(reply.value("job", Json::object()), look_of(context)));
    }
    return 0;
}

}  // namespace roll::cli
