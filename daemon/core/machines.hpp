// What is remembered of the machines' faults, and which are left out for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/ids.hpp"
#include "common/time.hpp"

namespace roll::core {

struct State;
struct Worker;
struct Job;

struct Fault {
    Time at{};
    JobId job;
    bool certain = false;  // a check of the machine itself failed
    friend bool operator==(const Fault&, const Fault&) = default;
};

struct Machine {
    std::vector<Fault> faults{};           // since it was last excluded, oldest first
    std::optional<Time> excluded_until{};  // gets nothing new until then
    std::string reason{};
    friend bool operator==(const Machine&, const Machine&) = default;
};

// Exit codes of attempts, by roll-worker (docs/internals.md): a check of the node failed, the job's
// own or the site's.
inline constexpr int kExitUnfit = 77;
inline constexpr int kExitUnhealthy = 78;

// Of a node's name: pilots on one machine have names of their own, "gpu7.a12".
std::string machine_of(const std::string& node);

bool is_excluded(const State& state, const Worker& worker);

// The job's current attempt ends as an infra failure: remembers it of the machine that is to blame,
// unless that was about to go.
void note_fault(State& state, JobId id, Time at);

}  // namespace roll::core
