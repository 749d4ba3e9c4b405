#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/commands/commands.hpp"
#include "cli/job/environment.hpp"
#include "cli/show/job_view.hpp"
#include "cli/text/render.hpp"

namespace roll::cli {
namespace {

// Returns the job's document for a new submission. The new document has no schedule and no
// dependencies. A task of an array becomes a single job. The output directory is new and is next to
// the original output directory.
Result<Source> again(const Json& job) {
    const std::string id = field_text(job, "id");
    Json document = job.value("spec", Json());
    if (!document.is_object() || !document.contains("kind"))
        return fail(ErrorCode::NotFound,
                    fmt::format("job {} cannot be submitted again: its job file is no longer "
                                "stored",
                                id),
                    "submit the original job file with rollctl submit");
    ROLL_TRY_VOID(refuse_hidden_values(job));
    for (const char* key : {"begin", "deadline", "array", "sweep", "cron", "then"})
        document.erase(key);
    document["after"] = Json::array();
    document["hold"] = false;
    std::string output = document.value("output", "");
    if (output.find("{id}") == std::string::npos) output += "-again-{id}";
    document["output"] = output;
    ROLL_TRY(std::string base, working_directory());
    return Source{.label = fmt::format("job {}, again", id),
                  .document = std::move(document),
                  .base = std::move(base),
                  .stored = true};
}

}  // namespace

Result<int> run_resubmit(const Context& context, const std::string& selector, bool failed_only,
                         const SubmitOptions& options) {
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    ROLL_TRY(const Json reply, daemon.ask(protocol::JobsArgs{.selector = selector, .all = true}));
    std::vector<Source> sources;
    for (const Json& summary : reply.value("jobs", Json::array())) {
        const bool ended_badly = is_over(summary) && field_text(summary, "state") != "done";
        if (!is_over(summary) || (failed_only && !ended_badly)) continue;
        ROLL_TRY(const Json job, daemon.show(summary.value("id", std::uint64_t{0})));
        ROLL_TRY(Source source, again(job));
        sources.push_back(std::move(source));
    }
    if (sources.empty())
        return fail(ErrorCode::NotFound,
                    failed_only
                        ? fmt::format("none of the jobs {} failed or was cancelled", selector)
                        : fmt::format("none of the jobs {} has ended", selector),
                    "rollctl jobs -a " + selector);
    return submit_sources(context, options, std::move(sources));
}

}  // namespace roll::cli
