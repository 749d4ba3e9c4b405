#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/client/daemon.hpp"
#include "cli/slurm/arguments.hpp"
#include "cli/slurm/jobs.hpp"
#include "cli/slurm/programs.hpp"
#include "cli/slurm/squeue_columns.hpp"
#include "cli/text/render.hpp"

namespace roll::cli {
namespace {

constexpr std::array kSqueueFlags = {
    SlurmFlag{'h', "noheader"},
    SlurmFlag{'u', "user", true},
    SlurmFlag{0, "users", true},
    SlurmFlag{0, "me"},
    SlurmFlag{'j', "jobs", true},
    SlurmFlag{'t', "states", true},
    SlurmFlag{0, "state", true},
    SlurmFlag{'n', "name", true},
    SlurmFlag{'o', "format", true},
    SlurmFlag{'O', "Format", true},
    SlurmFlag{'S', "sort", true},
    SlurmFlag{0, "json"},
    SlurmFlag{'l', "long"},
    SlurmFlag{0, "start"},
    SlurmFlag{'a', "all", false, true},
    SlurmFlag{'r', "array", false, true},
    SlurmFlag{'p', "partition", true, true},
};
constexpr const char* kSqueueUsual = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
constexpr const char* kSqueueLong = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";
constexpr const char* kSqueueStart = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R";

bool queue_wants(const Json& job, const SlurmArguments& arguments) {
    const auto any = [&](const char* name, const auto& matches) {
        const auto list = arguments.list(name);
        return list.empty() || std::ranges::any_of(list, matches);
    };
    const auto state = [&](const std::string& one) { return has_state(job, one); };
    const auto user = [&](const std::string& one) { return field_text(job, "user") == one; };
    const auto ids = split_ids(arguments.value("jobs"));
    const auto meant = [&](const std::string& one) { return is_meant(job, one); };
    return (ids.empty() || std::ranges::any_of(ids, meant)) &&
           (!arguments.has("start") || field_text(job, "state") == "queued") &&
           any("name", [&](const std::string& one) { return field_text(job, "name") == one; }) &&
           any("states", state) && any("state", state) && any("user", user) && any("users", user) &&
           (!arguments.has("me") || user(user_name()));
}

}  // namespace

Result<int> run_squeue(const Context& context, const std::vector<std::string>& words) {
    ROLL_TRY(const SlurmArguments arguments, read_slurm_arguments("squeue", words, kSqueueFlags));
    if (!arguments.rest.empty())
        return fail(ErrorCode::InvalidArgument,
                    fmt::format("squeue: {} is not an option", arguments.rest[0]),
                    "rollctl slurm squeue --help");
    std::string format = arguments.has("start")  ? kSqueueStart
                         : arguments.has("long") ? kSqueueLong
                                                 : kSqueueUsual;
    if (arguments.has("format")) format = arguments.value("format");
    ROLL_TRY(const std::vector<SlurmColumn> wanted,
             arguments.has("Format") ? read_queue_types(arguments.value("Format"))
                                     : read_queue_format(format));
    for (const char* option : {"states", "state"})
        ROLL_TRY_VOID(check_states("squeue", arguments.list(option)));
    ROLL_TRY(Daemon daemon, Daemon::connect(context));
    const bool ended = arguments.has("states") || arguments.has("state");
    ROLL_TRY(const Json reply, daemon.jobs({.all = ended}));
    std::vector<Json> jobs;
    for (const Json& job : reply.value("jobs", Json::array()))
        if (queue_wants(job, arguments)) jobs.push_back(job);
    const Time now = wall_clock_now();
    // An order like Slurm's default order, in which queued jobs come first.
    const std::string order = arguments.has("sort") ? arguments.value("sort") : "t,-p,i";
    ROLL_TRY_VOID(sort_queue(jobs, order, daemon, now));
    if (arguments.has("json")) {
        print_json(queue_json(jobs, daemon, now));
        return 0;
    }
    std::string text;
    if (!arguments.has("noheader"))
        text += columns_line(wanted, [&](const SlurmColumn& c) {
            return std::string(queue_columns().at(c.field).title);
        });
    for (const Json& job : jobs)
        text += columns_line(wanted, [&](const SlurmColumn& c) {
            return queue_columns().at(c.field).value({job, now, daemon});
        });
    print(text);
    return 0;
}

}  // namespace roll::cli
