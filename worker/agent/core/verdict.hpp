// Decides an attempt's outcome on this node from how its ranks ended and why they were stopped. The
// functions are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/outcome.hpp"

namespace roll::agent {

struct ExitStatus {
    bool signaled = false;
    int number = 0;  // exit status, or number of the signal
    friend bool operator==(const ExitStatus&, const ExitStatus&) = default;

    int shell_code() const { return signaled ? 128 + number : number; }
};

enum class StopCause {
    Asked,       // rolld ordered to stop the attempt
    Fenced,      // rolld reported that the attempt is not current
    Superseded,  // a later attempt of the job arrived
    LeaseLost,   // the bound (lease.hpp) reached the lease time
    Orphaned,    // rolld did not answer for orphan_after
    Draining     // this roll-worker was asked to end
};

struct Ending {
    // true if the program is the job's own command: every exit status but 0 then means
    // failure
    bool command = false;
    // exit of each local rank; nullopt: the exit was not seen
    std::vector<std::optional<ExitStatus>> exits;
    std::vector<std::string> failures{};  // failure that each local rank reported; empty: none
    std::optional<int> first_failed{};    // local rank that failed by itself before any other
    int first_rank = 0;                   // global rank of this node's first rank
    std::optional<StopCause> stopped{};
    std::string stop_reason{};
};

struct Verdict {
    Outcome outcome = Outcome::Done;
    int exit_code = 0;
    std::string reason{};
    friend bool operator==(const Verdict&, const Verdict&) = default;
};

// Returns whether a rank that nobody asked to stop has failed by itself. Exit status 0 is not such
// a failure. For Roll's own programs, kExitYielded and kExitPeerLost are not either.
bool failed_by_itself(const ExitStatus& exit, bool command);

Verdict judge(const Ending& ending);

// Returns `before` followed by the reported failure of the lowest local rank that reported one.
// Returns "" if no rank reported a failure.
std::string first_failure(const Ending& ending, const std::string& before);

}  // namespace roll::agent
