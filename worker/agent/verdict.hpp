// Decides an attempt's outcome on this node from how its ranks ended and why they were stopped.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace roll::agent {

struct ExitStatus {
    bool signaled = false;
    int number = 0;  // exit status, or number of the signal
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
    // True for the job's own program, of which only exit status 0 has a meaning
    bool command = false;
    std::vector<std::optional<ExitStatus>> exits;  // by local rank; nullopt: its end was not seen
    std::vector<std::string> failures{};  // by local rank: the failure that it reported, or empty
    std::optional<int> first_failed{};    // local rank that was the first to fail by itself
    int first_rank = 0;                   // global rank of this node's first rank
    std::optional<StopCause> stopped{};
    std::string stop_reason{};
};

struct Verdict {
    std::string outcome{};  // as in protocol::RunningAttempt
    int exit_code = 0;
    std::string reason{};
    friend bool operator==(const Verdict&, const Verdict&) = default;
};

// For a rank that ended without a stop request: returns whether it failed by itself. Exit status 0,
// a yield and a lost peer do not count as that.
bool failed_by_itself(const ExitStatus& exit, bool command);

Verdict judge(const Ending& ending);

}  // namespace roll::agent
