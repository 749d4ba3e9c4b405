// A machine with faults, as a part of State.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/time.hpp"

namespace roll::core {

struct Fault {
    Time at{};
    JobId job;
    bool certain = false;  // the fault was found by a check of the machine itself
    // The worker was lost or restarted; counts once, however many jobs ran there.
    bool lost = false;
    // Other machines failed at the same time, so the fault does not count against this machine.
    bool common = false;
    friend bool operator==(const Fault&, const Fault&) = default;
};

struct Machine {
    std::vector<Fault> faults{};  // oldest first; only faults since the machine was last forgiven
    std::optional<Time> excluded_until{};  // no new work before this time
    std::string reason{};
    friend bool operator==(const Machine&, const Machine&) = default;
};

// Exit codes that roll-worker gives to attempts (docs/internals.md): the job's output cannot be
// written; the job's check of the node failed; the site's check of the node failed.
inline constexpr int kExitRefused = 4;
inline constexpr int kExitUnfit = 77;
inline constexpr int kExitUnhealthy = 78;

}  // namespace roll::core
