#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/show/job_view.hpp"
#include "cli/show/layout_view.hpp"
#include "cli/text/render.hpp"
#include "cli/text/text_width.hpp"
#include "common/time.hpp"

namespace roll::cli {

Result<int> run_show(const Context& context, const std::string& selector, bool diff) {
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, selector));
    ROLL_TRY(Json reply, daemon.ask(protocol::ShowArgs{.id = id}));
    if (diff && !context.json) {
        const Json spec = reply.value("job", Json::object()).value("spec", Json::object());
        const Json git = spec.is_object() ? spec.value("git", Json::object()) : Json::object();
        if (!git.contains("diff"))
            return fail(ErrorCode::NotFound, fmt::format("job {} has no diff of its work tree", id),
                        fmt::format("rollctl show {}", id));
        // `git apply` needs each byte of the diff
        const std::string changes = field_text(git, "diff");
        print_bytes(context.terminal ? printable(changes) : changes);
        return 0;
    }
    if (context.json) {
        if (Json layout = layout_of(reply["job"]); !layout.is_null())
            reply["job"]["layout"] = std::move(layout);
        print_json(reply);
    } else if (context.parsable) {
        print(fmt::format("{}\n", id));
    } else {
        print(job_text(reply.value("job", Json::object()), look_of(context)));
    }
    return 0;
}

}  // namespace roll::cli
