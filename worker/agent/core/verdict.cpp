#include "worker/agent/core/verdict.hpp"

#include <algorithm>
#include <cstring>

#include "common/check.hpp"
#include "common/protocol/rank.hpp"

namespace roll::agent {

using enum Outcome;
namespace {

std::string describe(const Ending& ending, int rank, const ExitStatus& exit) {
    const bool alone = ending.command && ending.exits.size() == 1;
    const std::string who =
        alone ? "the command" : "rank " + std::to_string(ending.first_rank + rank);
    if (!exit.signaled) return who + " ended with exit status " + std::to_string(exit.number);
    const char* const name = ::sigdescr_np(exit.number);
    return who + " was killed by signal " + std::to_string(exit.number) +
           (name == nullptr ? "" : std::string(" (") + name + ")");
}

Outcome failed_outcome(const ExitStatus& exit, bool command) {
    // The same signal would probably end the command again. The outcome is therefore App, because
    // Infra would cause a retry.
    if (command) return App;
    if (exit.signaled) return Infra;
    if (exit.number == protocol::kExitInvalid || exit.number == protocol::kExitDiverged)
        return Invalid;
    if (exit.number == protocol::kExitUnfit) return Infra;
    return App;
}

Verdict judge_failed(const Ending& ending, int rank) {
    const ExitStatus exit = ending.exits.at(rank).value_or(ExitStatus{});
    const std::string& said = ending.failures.at(rank);
    return {.outcome = failed_outcome(exit, ending.command),
            .exit_code = exit.shell_code(),
            .reason = said.empty() ? describe(ending, rank, exit) : said};
}

int worst_code(const Ending& ending) {
    int code = 0;
    for (const auto& exit : ending.exits)
        if (exit) code = std::max(code, exit->shell_code());
    return code;
}

bool all_exited(const Ending& ending, std::initializer_list<int> codes) {
    return std::ranges::all_of(ending.exits, [&](const auto& exit) {
        return exit && !exit->signaled && std::ranges::find(codes, exit->number) != codes.end();
    });
}

Outcome stopped_outcome(StopCause cause) {
    switch (cause) {
        case StopCause::Asked:
        case StopCause::Fenced:
        case StopCause::Superseded: return Stopped;
        case StopCause::LeaseLost:
        case StopCause::Orphaned:
        case StopCause::Draining: return Infra;
    }
    return Infra;
}

Verdict judge_stopped(const Ending& ending) {
    return {.outcome = stopped_outcome(*ending.stopped),
            .exit_code = worst_code(ending),
            .reason = ending.stop_reason + first_failure(ending, "; ")};
}

}  // namespace

bool failed_by_itself(const ExitStatus& exit, bool command) {
    if (exit.signaled) return true;
    if (exit.number == 0) return false;
    return command ||
           (exit.number != protocol::kExitYielded && exit.number != protocol::kExitPeerLost);
}

std::string first_failure(const Ending& ending, const std::string& before) {
    const auto said =
        std::ranges::find_if(ending.failures, [](const auto& s) { return !s.empty(); });
    return said == ending.failures.end() ? "" : before + *said;
}

Verdict judge(const Ending& ending) {
    ROLL_CHECK(ending.exits.size() == ending.failures.size());
    if (ending.first_failed) return judge_failed(ending, *ending.first_failed);
    const bool may_finish = !ending.command || !ending.stopped;
    if (may_finish && all_exited(ending, {0}))
        return {.outcome = Done, .exit_code = 0, .reason = ""};
    const bool may_yield = !ending.command || ending.stopped;
    if (may_yield && all_exited(ending, {0, protocol::kExitYielded}) && worst_code(ending) != 0)
        return {.outcome = Yielded,
                .exit_code = protocol::kExitYielded,
                .reason = ending.stopped ? ending.stop_reason : "stopped after a checkpoint"};
    if (ending.stopped) return judge_stopped(ending);
    if (!std::ranges::all_of(ending.exits, [](const auto& exit) { return exit.has_value(); }))
        return {.outcome = Infra,
                .exit_code = 1,
                .reason = "the process that supervises the attempt (guard) ended"};
    return {.outcome = Infra,
            .exit_code = protocol::kExitPeerLost,
            .reason = "a rank lost contact with another rank, and no rank on this node failed" +
                      first_failure(ending, ": ")};
}

}  // namespace roll::agent
