#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/slurm/arguments.hpp"
#include "cli/slurm/jobs.hpp"
#include "cli/slurm/programs.hpp"
#include "cli/text/render.hpp"
#include "common/protocol/job_operations.hpp"

namespace roll::cli {
namespace {

constexpr std::array kScancelFlags = {
    SlurmFlag{'u', "user", true},           SlurmFlag{0, "me"},
    SlurmFlag{'n', "name", true},           SlurmFlag{0, "jobname", true},
    SlurmFlag{'t', "state", true},          SlurmFlag{'Q', "quiet"},
    SlurmFlag{'v', "verbose", false, true}, SlurmFlag{'p', "partition", true, true},
};

bool cancel_wants(const Json& job, const SlurmArguments& arguments) {
    const auto is = [&](const char* option, const std::string& value) {
        return !arguments.has(option) || arguments.value(option) == value;
    };
    return is("user", field_text(job, "user")) && is("name", field_text(job, "name")) &&
           is("jobname", field_text(job, "name")) &&
           (!arguments.has("me") || field_text(job, "user") == user_name()) &&
           (!arguments.has("state") || has_state(job, arguments.value("state")));
}

}  // namespace

Result<int> run_scancel(const Context& context, const std::vector<std::string>& words) {
    ROLL_TRY(const SlurmArguments arguments, read_slurm_arguments("scancel", words, kScancelFlags));
    if (arguments.rest.empty() && arguments.given.empty())
        return fail(ErrorCode::InvalidArgument,
                    "scancel: no job is named; give ids, or --user, --name or --state");
    ROLL_TRY_VOID(check_states("scancel", arguments.list("state")));
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    ROLL_TRY(const Json reply, daemon.jobs({.all = !arguments.rest.empty()}));
    const Json jobs = reply.value("jobs", Json::array());
    std::vector<std::string> wanted;
    for (const std::string& word : arguments.rest)
        for (const std::string& id : split_ids(word)) wanted.push_back(id);
    int status = 0;
    for (const std::string& id : wanted) {
        const auto meant = [&](const Json& job) { return is_meant(job, id); };
        if (std::ranges::any_of(jobs, meant)) continue;
        say(fmt::format("scancel: error: there is no job {}", id));
        status = 1;
    }
    std::string selector;
    for (const Json& job : jobs) {
        const auto names = [&](const std::string& id) { return is_meant(job, id); };
        const std::string state = field_text(job, "state");
        const bool open = state == "queued" || state == "running";
        if (!open || !cancel_wants(job, arguments)) continue;
        if (wanted.empty() || std::ranges::any_of(wanted, names))
            selector += (selector.empty() ? "" : ",") + field_text(job, "id");
    }
    if (selector.empty()) return status;
    ROLL_TRY_VOID(change(context, protocol::CancelArgs{{.selector = selector}, "scancel"}));
    return status;
}

}  // namespace roll::cli
