#include <fmt/format.h>

#include "cli/commands/commands.hpp"
#include "cli/daemon.hpp"
#include "cli/follow.hpp"
#include "cli/job_view.hpp"
#include "cli/render.hpp"
#include "common/protocol/job_operations.hpp"
#include "common/spec/units.hpp"

namespace roll::cli {
namespace {

constexpr auto kCheckpointPoll = std::chrono::seconds(5);

// Returns the checkpoint that the attempt `token` saved for request number `asked` or for a later
// request; nullptr if there is none yet.
const Json* answering(const Json& checkpoints, const std::string& token, std::uint64_t asked) {
    for (const Json& one : checkpoints) {
        if (field_text(one, "token") == token && one.value("asked", std::uint64_t{0}) >= asked)
            return &one;
    }
    return nullptr;
}

bool runs(const Json& job, const std::string& token) {
    const Json attempts = job.value("attempts", Json::array());
    return !attempts.empty() && field_text(attempts.back(), "token") == token &&
           field_text(attempts.back(), "state") != "ended";
}

Result<Json> await_checkpoint(Daemon& daemon, std::uint64_t id, const Json& request,
                              std::chrono::seconds patience) {
    const std::string token = field_text(request, "token");
    const auto asked = request.value("asked", std::uint64_t{0});
    const auto until = std::chrono::steady_clock::now() + patience;
    JobWatch watch(daemon, id);
    for (;;) {
        ROLL_TRY(const Json job, watch.look(kCheckpointPoll));
        const Json checkpoints = job.value("checkpoints", Json::array());
        if (const Json* found = answering(checkpoints, token, asked)) return *found;
        if (!runs(job, token))
            return fail(ErrorCode::Failed,
                        fmt::format("the attempt of job {} ended before it saved a checkpoint", id),
                        fmt::format("rollctl show {}", id));
        if (std::chrono::steady_clock::now() >= until)
            return fail(
                ErrorCode::Failed,
                fmt::format("job {} saved no checkpoint within {} s; the job may still save one",
                            id, patience.count()),
                fmt::format("rollctl show {}, or try again with a longer --timeout", id));
    }
}

}  // namespace

Result<int> run_checkpoint(const Context& context, const std::string& selector,
                           const std::string& timeout) {
    ROLL_TRY(const std::chrono::seconds patience, spec::parse_duration(timeout));
    ROLL_TRY(Daemon daemon, Daemon::connect_for_change(context));
    ROLL_TRY(const std::uint64_t id, one_job(daemon, selector));
    ROLL_TRY(const Json request, daemon.ask(protocol::CheckpointArgs{.id = id}));
    ROLL_TRY(const Json saved, await_checkpoint(daemon, id, request, patience));
    if (context.json) {
        print_json({{"schema", "roll.checkpoint/1"},
                    {"job", id},
                    {"step", saved.value("step", Json())},
                    {"directory", saved.value("directory", Json())}});
    } else {
        print(field_text(saved, "directory") + "\n");
    }
    return 0;
}

}  // namespace roll::cli
