#include <cerrno>
#include <csignal>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/client/local.hpp"
#include "cli/commands/commands.hpp"
#include "common/io/process.hpp"
#include "common/io/state_directory.hpp"

namespace roll::cli {
namespace {

constexpr auto kCheckpointPatience = std::chrono::minutes(10);
constexpr auto kDownPatience = std::chrono::seconds(20);

// Stops the worker. Returns false if no worker was running. Before the worker ends, each attempt on
// the worker saves a checkpoint at the attempt's next step. If `now` is set, a second SIGTERM makes
// the worker end without these checkpoints.
Result<bool> end_worker(const io::StateDirectory& state, bool now) {
    const auto pid = io::running(state.pid("worker"), "roll-worker");
    if (!pid) return false;
    ::kill(*pid, SIGTERM);
    if (now) {
        if (wait_gone(*pid, std::chrono::seconds(1))) return true;
        ::kill(*pid, SIGTERM);
        if (wait_gone(*pid, kDownPatience)) return true;
        ::kill(*pid, SIGKILL);
    }
    if (wait_gone(*pid, now ? kDownPatience : kCheckpointPatience)) return true;
    return fail(ErrorCode::Failed,
                fmt::format("roll-worker (process {}) is still saving its jobs' checkpoints", *pid),
                "rollctl down --now");
}

Result<bool> end_rolld(const io::StateDirectory& state) {
    const auto pid = io::running(state.pid("rolld"), "rolld");
    if (!pid) return false;
    ::kill(*pid, SIGTERM);
    if (wait_gone(*pid, kDownPatience)) return true;
    // SIGKILL loses no data, because the ledger holds everything that rolld has acknowledged.
    ::kill(*pid, SIGKILL);
    if (wait_gone(*pid, kDownPatience)) return true;
    return fail(ErrorCode::Failed,
                fmt::format("rolld (process {}) does not end after SIGKILL", *pid));
}

}  // namespace

Result<int> run_down(const Context& context, bool now) {
    ROLL_TRY(const io::StateDirectory state, io::StateDirectory::find(context.directory));
    if (state.is_key_holders())
        return fail(ErrorCode::Refused,
                    fmt::format("{} holds a key of another user's rolld; only the operator of that "
                                "rolld can stop it",
                                state.root().string()),
                    "rollctl cancel @me cancels your own jobs");
    if (::access(state.root().c_str(), X_OK) != 0 && errno == EACCES)
        return fail(
            ErrorCode::Refused,
            state.root().string() + " belongs to another user; only that user can stop its rolld",
            "use another directory with --dir");
    ROLL_TRY(const bool worker, end_worker(state, now));
    ROLL_TRY(const bool rolld, end_rolld(state));
    if (context.json) {
        print_json({{"schema", "roll.down/1"}, {"rolld", rolld}, {"worker", worker}});
    } else if (rolld || worker) {
        say(fmt::format("stopped {}{}{}; queued jobs wait for the next rollctl up",
                        worker ? "the worker" : "", worker && rolld ? " and " : "",
                        rolld ? "rolld" : ""));
    } else {
        say("nothing was running");
    }
    return 0;
}

}  // namespace roll::cli
