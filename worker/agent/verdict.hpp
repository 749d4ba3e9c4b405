// How an attempt ended here, from how its ranks ended and why they were stopped. Pure.
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
    Asked,       // rolld ordered it
    Fenced,      // rolld says that the attempt is not current
    Superseded,  // a later attempt of the job came
    LeaseLost,   // the bound reached the lease
    Orphaned,    // no answer for orphan_after
    Draining     // this roll-worker was asked to end
};

struct Ending {
    bool command = false;  // the job's own program: its exit statuses mean nothing to us but 0
    std::vector<std::optional<ExitStatus>>
        exits;                            // by rank of this node; none: its end was not seen
    std::vector<std::string> failures{};  // by rank: what it said, or empty
    std::optional<int> first_failed{};    // the first rank that failed by itself
    int first_rank = 0;                   // global rank of the first one here
    std::optional<StopCause> stopped{};
    std::string stop_reason{};
};

struct Verdict {
    std::string outcome{};  // as protocol::RunningAttempt
    int exit_code = 0;
    std::string reason{};
    friend bool operator==(const Verdict&, const Verdict&) = default;
};

// Whether a rank that ended like this, unasked, is itself at fault: not 0, not yielded, not a lost
// peer.
bool failed_by_itself(const ExitStatus& exit, bool command);

Verdict judge(const Ending& ending);

}  // namespace roll::agent
