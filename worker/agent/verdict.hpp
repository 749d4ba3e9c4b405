// Decides an attempt's outcome on this node from how its ranks ended and why they were stopped.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace roll::agent {

struct ExitStatus {
    bool signaled = false;
    int number = 0;  // exit status, or signal
    friend bool operator==(const ExitStatus&, const ExitStatus&) = default;

    int shell_code() const { return signaled ? 128 + number : number; }
};

enum class StopCause {
    Asked,       // ordered by rolld
    Fenced,      // rolld reported the attempt as not current
    Superseded,  // a later attempt of the job arrived
    LeaseLost,   // the bound reached the lease
    Orphaned,    // no answer for orphan_after
    Draining     // this roll-worker was asked to end
};

struct Ending {
    bool command = false;  // the job's own program; only exit status 0 has a meaning
    std::vector<std::optional<ExitStatus>> exits;  // by local rank; nullopt: its end was not seen
    std::vector<std::string> failures{};           // by local rank: its reported failure, or empty
    std::optional<int> first_failed{};             // the first rank that failed by itself
    int first_rank = 0;                            // global rank of this node's first rank
    std::optional<StopCause> stopped{};
    std::string stop_reason{};
};

struct Verdict {
    std::string outcome{};  // as protocol::RunningAttempt
    int exit_code = 0;
    std::string reason{};
    friend bool operator==(const Verdict&, const Verdict&) = default;
};

// Returns true if a rank that ended like this without a stop request failed by itself: not by
// exit 0, a yield or a lost peer.
bool failed_by_itself(const ExitStatus& exit, bool command);

Verdict judge(const Ending& ending);

}  // namespace roll::agent
