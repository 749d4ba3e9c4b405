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
    bool certain = false;  // true if a check of the machine itself found the fault
    // True if the worker was lost or restarted. The loss counts as one fault, however many jobs ran
    // on the worker.
    bool lost = false;
    // True if other machines failed at the same time. The fault then does not count against this
    // machine.
    bool common = false;
    friend bool operator==(const Fault&, const Fault&) = default;
};

struct Machine {
    std::vector<Fault> faults{};  // faults since the machine was last forgiven, oldest first
    std::optional<Time> excluded_until{};  // the machine gets no new work before this time
    std::string reason{};
    friend bool operator==(const Machine&, const Machine&) = default;
};

// Exit codes that roll-worker gives to attempts (docs/internals.md). Refused: the job's output
// cannot be written. Unfit: the job's check of the node failed. Unhealthy: the site's check of the
// node failed.
inline constexpr int kExitRefused = 4;
inline constexpr int kExitUnfit = 77;
inline constexpr int kExitUnhealthy = 78;

}  // namespace roll::core
