#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/show/files_of_job.hpp"
#include "cli/show/job_view.hpp"
#include "cli/show/layout_view.hpp"
#include "cli/text/render.hpp"
#include "cli/text/text_width.hpp"
#include "common/time.hpp"

namespace roll::cli {
namespace {

constexpr std::uint64_t kHeadMax = 64 << 10;  // bytes of metrics.jsonl that are read

// Adds the key `layout` to a training job.
void add_layout(Daemon& daemon, Json& job) {
    Json layout = layout_of(job);
    if (layout.is_null()) return;
    if (layout["pp"] > 1 && layout["schedule"] == "auto") {
        const std::string metrics = JobFiles(daemon, false).metrics(job).read(0, kHeadMax);
        const std::string head = metrics.substr(0, metrics.find('\n'));
        add_chosen_schedule(layout, Json::parse(head, nullptr, false));
    }
    job["layout"] = std::move(layout);
}

}  // namespace

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
    if (context.parsable && !context.json) {
        print(fmt::format("{}\n", id));
        return 0;
    }
    Json& job = reply["job"];
    add_layout(daemon, job);
    if (context.json)
        print_json(reply);
    else
        print(job_text(job, look_of(context)));
    return 0;
}

}  // namespace roll::cli
