// Records the machines' faults, and which machines are excluded for them.
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
    bool lost = false;  // its worker was lost or restarted: one fault, however many jobs ran there
    // Other machines failed at the same time, so the fault does not count against this machine.
    bool common = false;
    friend bool operator==(const Fault&, const Fault&) = default;
};

struct Machine {
    std::vector<Fault> faults{};           // since the last pardon, oldest first
    std::optional<Time> excluded_until{};  // no new work until then
    std::string reason{};
    friend bool operator==(const Machine&, const Machine&) = default;
};

// Exit codes of attempts, set by roll-worker (docs/internals.md): the job's output cannot be
// written; the job's check of the node failed; the site's check failed.
inline constexpr int kExitRefused = 4;
inline constexpr int kExitUnfit = 77;
inline constexpr int kExitUnhealthy = 78;

// Returns the machine of a node name: pilots on one machine have their own names, "gpu7.a12".
std::string machine_of(const std::string& node);

bool is_excluded(const State& state, const Worker& worker);

// Records a fault of the blamed machine when the job's current attempt ends as an infra failure.
// Ignores machines that were draining or being released, lost workers (see note_loss()) and
// failures of the job's output (kExitRefused).
void note_fault(State& state, JobId id, Time at);

// Records one fault when a worker is about to be erased as lost, if it ran something and was not
// draining or being released.
void note_loss(State& state, WorkerId id, Time at);

// Returns why a machine should be excluded for its faults after `since`; empty if it should not.
std::string fault_of(const State& state, const Machine& machine, Time since);

// Returns whether an excluded machine would not be excluded with what is known now, because other
// machines had the same faults at the same time.
bool was_innocent(const State& state, const Machine& machine);

}  // namespace roll::core
